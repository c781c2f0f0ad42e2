"""Tasks of backups of volumes. Each waits for the volume's task before it, and may run twice."""

from panel.core.db import session
from panel.core.messages import message
from panel.models import Instance
from panel.services import instance_backups
from panel.services.backup_operations import RECORDING_PROGRESS
from panel.services.volumes.snapshots import make_copy_name
from worker.engine.registry import task_handler
from worker.tasks.backup_contents import write_backup
from worker.tasks.instance_backups import find_backup, get_backup, record_point, store_point
from worker.tasks.instances import POWER_TASKS, SUSPENSION_TASKS
from worker.tasks.volumes import build_volume_disk, find_undeleted_volume, get_volume, get_volume_in_turn
from worker.tasks.volumes import on_create_failed as on_volume_create_failed


def on_create_failed(row, error):
    if backup := find_backup(row):
        instance_backups.record_failed(backup, error)


@task_handler("volume_backup", on_failure=on_create_failed, conflicts_with=(*POWER_TASKS, *SUSPENSION_TASKS))
def create(work):
    """Store a point of the volume: as the machine's backup job reads it, or of a volume in no machine completely."""
    volume = get_volume_in_turn(work)
    # Not the volume's own: later requests have changed that already.
    instance, disk = session.get(Instance, work.task.arguments["instance_id"] or ""), build_volume_disk(volume)
    machine_id = instance.id if instance and instance.deployed else None
    get_backup(work).checkpoint_machine_id = machine_id
    facts = {"machine_id": machine_id, "machine": {"volume": volume.id, "name": volume.name}}
    manifest = store_point(work, (disk,), **facts)
    entry = manifest.disks[0]
    stored = {"id": volume.id, "name": entry.name, "position": 0, "size": entry.size}
    reading = {"read_mode": entry.read_mode, "full_read_reason": entry.full_read_reason}
    record_point(get_backup(work), manifest, [stored | reading])


@task_handler("volume_backup_copy", on_failure=on_volume_create_failed)
def create_volume(work):
    """Create a volume with the content of the backup."""
    write_backup(work, build_volume_disk(get_volume_in_turn(work)))
    get_volume(work).status = "available"


def on_restore_failed(row, error):
    volume = find_undeleted_volume(row)
    if volume and volume.disk_name != row.arguments.get("copy_name"):  # else it has the restored content
        volume.error = error


@task_handler("volume_backup_restore", on_failure=on_restore_failed)
def restore(work):
    """Write the backup to a new disk, and switch the volume to it when that is complete."""
    volume = get_volume_in_turn(work)
    if "copy_name" not in work.task.arguments:
        work.update(arguments=work.task.arguments | {"copy_name": make_copy_name(volume)})
        session.commit()
    name, pool = work.task.arguments["copy_name"], volume.storage.name
    if volume.disk_name == name:
        return  # a new attempt runs the rollback steps first, which deleted the earlier disk
    write_backup(work, build_volume_disk(volume, name))
    volume = get_volume(work)
    old_name, volume.disk_name, volume.ever_attached, volume.error = volume.disk_name, name, True, None
    work.update(rollback_steps=[["delete_disk", pool, old_name]])
    work.step(message("Removing what was there"), RECORDING_PROGRESS)
    work.node.delete_disk(pool, old_name)
