"""Backups: one encrypted file with database, secret key and settings, from which another machine goes on."""
