"""Task kinds of backups: the tests of this folder have faults of the node and of the storage."""

KINDS_TESTED_HERE = {
    "backup_create",
    "backup_chain_reset",
    "backup_delete",
    "backup_collect_garbage",
    "backup_verify",
    "backup_restore",
    "backup_restore_new",
    "backup_restore_revert",
    "backup_image",
    "backup_copy",
    "backup_copy_delete",
}
