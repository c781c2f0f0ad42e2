"""Backups: one encrypted file with database, secret key and settings, which can be restored on another machine."""
