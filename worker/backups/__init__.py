"""The engine of backups: a store of encrypted chunks, and backing up and restoring the disks of machines with it.

docs/backup-engine.md describes the format and what it guarantees. The modules that `restore` needs import nothing of
the panel, so that it restores without one.
"""
