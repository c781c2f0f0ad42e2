"""Task kinds of backups of the installation: test_runs.py has faults of the destination and of the worker."""

KINDS_TESTED_HERE = {"installation_backup_create", "installation_backup_delete"}
