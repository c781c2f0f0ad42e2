"""Task kinds of the files of backups: test_faults.py has a fault at every call."""

KINDS_TESTED_HERE = {"backup_files_open", "backup_files_close", "backup_files_download"}
