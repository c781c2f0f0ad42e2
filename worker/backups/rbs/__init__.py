"""Points on a Proxmox Backup Server: its public API, its backup and reader protocols, and its file formats."""
