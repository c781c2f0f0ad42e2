"""Writing the content of backups to disks."""

from panel.core.errors import NotFound
from panel.core.messages import message
from panel.services import backup_limits
from worker.backups.restoring import restore_disk
from worker.tasks.backup_reading import open_backup
from worker.tasks.backup_repositories import translated_errors
from worker.tasks.instance_backups import find_backup


def write_disks(work, targets):
    """Write stored disks of the task's backup to new disks: {name in the point: disk}. They are deleted when the task
    fails. Return the manifest."""
    backup = find_backup(work.task)
    if backup is None:
        raise NotFound(message("The backup was deleted in the meantime."))
    speed = backup_limits.compute_speed(backup.destination)
    work.step(message("Connecting to the storage"), 5)
    with open_backup(backup) as (repository, manifest):
        for stored_name, disk in targets.items():
            work.undo("delete_disk", disk.pool, disk.name)
            work.step(message("Writing the disk"), 10)
            with translated_errors():
                restore_disk(work.node, repository, manifest, stored_name, disk, work.report_progress, speed)
    return manifest


def write_backup(work, disk):
    """Write the only disk of the task's backup to a new disk."""
    backup = find_backup(work.task)
    if backup is None:
        raise NotFound(message("The backup was deleted in the meantime."))
    write_disks(work, {backup.disks[0]["name"]: disk})
