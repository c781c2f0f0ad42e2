"""Task kinds of restore tests: test_tasks.py has a fault at every call."""

KINDS_TESTED_HERE = {"backup_restore_test"}
