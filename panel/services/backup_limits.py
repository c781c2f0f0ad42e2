"""How many backups and restores a hypervisor runs at the same time, and how fast."""

from panel.models import BackupDestination
from panel.services import settings

MEBIBYTE = 1024**2


def compute_speed(destination: BackupDestination) -> int:
    """Return the bytes per second at which one backup or restore may read or write disks; 0 is unlimited. Each has an
    equal part of the hypervisor's limit, also while it runs alone."""
    values = settings.get()
    share = values.backup_bandwidth_per_hypervisor * MEBIBYTE // values.backup_tasks_per_hypervisor
    return min(filter(None, (destination.bandwidth_limit * MEBIBYTE, share)), default=0)
