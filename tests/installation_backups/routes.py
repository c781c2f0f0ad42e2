"""Paths of backups of the installation, and the passphrase of their tests."""

PASSPHRASE = "correct horse battery staple"
DESTINATIONS_PATH, SETTINGS_PATH = "/api/v1/backups/destinations", "/api/v1/backups/settings"
RUNS_PATH, TRIGGER_PATH = "/api/v1/backups/runs", "/api/v1/backups/runs/trigger"
