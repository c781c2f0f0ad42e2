"""Task kinds of backups of volumes: the tests of this folder have faults of the node and of the storage."""

KINDS_TESTED_HERE = {"volume_backup", "volume_backup_copy", "volume_backup_restore"}
