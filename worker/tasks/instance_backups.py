"""Tasks of backups of instances."""

from contextlib import suppress

import structlog

from panel.core import clock
from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.services import backup_copies, backup_limits, backup_operations, instance_backups, managed_backups
from panel.services.backup_policies import runs
from worker.backups.backup import BackupRequest, backup_machine
from worker.backups.errors import Damaged, ObjectNotFound, StoreError
from worker.engine.registry import periodic, task_handler
from worker.nodes.base import NotOnNode, Power
from worker.tasks.backup_repositories import StorageFailed, open_repository, translated_errors
from worker.tasks.instances import POWER_TASKS, SUSPENSION_TASKS, get_instance
from worker.tasks.machine_spec import build_disk

log = structlog.get_logger()


def find_backup(row):
    return instance_backups.find_by_id(row.arguments["backup_id"])


def get_backup(work):
    backup = find_backup(work.task)
    if backup is None:
        raise NotFound(message("The backup was deleted in the meantime."))
    return backup


def on_create_failed(row, error):
    backup = find_backup(row)
    if backup and instance_backups.record_failed(backup, error):
        runs.on_backup_failed(backup, error)


@task_handler("backup_create", on_failure=on_create_failed, conflicts_with=(*POWER_TASKS, *SUSPENSION_TASKS))
def create(work):
    """Store a point of the instance's disks."""
    instance, backup = get_instance(work), get_backup(work)
    disks = list_disks(instance, backup.backup_device)
    disks_by_name = {build_disk(disk).name: disk for disk in disks}
    has_state = instance.tpm_enabled or instance.secure_boot_enabled
    facts = {
        "machine_id": instance.id,
        "machine": describe_machine(instance),
        "firmware_machine_id": instance.id if has_state else None,
    }
    manifest = store_point(work, tuple(build_disk(disk) for disk in disks), **facts)
    backup = get_backup(work)
    entries = [entry for entry in manifest.disks if entry.name in disks_by_name]
    record_point(backup, manifest, [describe_disk(entry, disks_by_name[entry.name]) for entry in entries])
    managed_backups.on_backup_complete(backup)
    runs.on_backup_complete(backup)


def store_point(work, disks, **facts):
    """Store a point of the backup and return its manifest. An attempt after a lost worker finds the point if it was
    complete."""
    backup = get_backup(work)
    work.step(message("Connecting to the storage"), 2)
    with open_repository(backup.repository) as repository:
        manifest = find_manifest(repository, backup.id)
        if manifest is None:
            request = build_request(work, repository, disks, **facts)
            work.undo("end_backup", request.machine_id, [[disk.pool, disk.name] for disk in disks])
            work.step(message("Reading the disks"), 5)
            manifest = backup_machine(work.node, repository, request, work.report_progress)
        work.step(message("Recording the backup"), backup_operations.RECORDING_PROGRESS)
    return manifest


def record_point(backup, manifest, disks):
    instance_backups.record_complete(
        backup,
        disks=disks,
        statistics=describe_statistics(manifest.statistics),
        consistency=manifest.consistency,
        checkpoint=manifest.checkpoint,
        parent_backup_id=manifest.parent,
    )
    backup_copies.request(backup)


def list_disks(instance, backup_device):
    attached = [disk for disk in instance.disks if disk.attached]
    return attached[:1] if backup_device == "primary" else attached


def find_manifest(repository, point):
    """Return the manifest of the point, or None when there is none that can be read."""
    try:
        return repository.read_manifest(point)
    except (ObjectNotFound, Damaged):
        return None


def build_request(work, repository, disks, **facts):
    backup = get_backup(work)
    previous, reason = instance_backups.find_previous(backup, work.task.arguments.get("full_read_reason"))
    manifest = find_manifest(repository, previous.id) if previous else None
    return BackupRequest(
        point=backup.id,
        disks=disks,
        previous=manifest,
        reset_disks=frozenset(list_reset_disks(backup, previous)) if previous else frozenset(),
        full_read_reason=reason or "previous_missing",
        other_checkpoints=tuple(instance_backups.list_other_checkpoints(backup)),
        bytes_per_second=backup_limits.compute_speed(backup.destination),
        **facts,
    )


def list_reset_disks(backup, previous):
    disks = backup.instance.disks if backup.instance else ()
    return [build_disk(disk).name for disk in disks if disk.id in previous.reset_disk_ids]


def describe_machine(instance):
    """Return the description that is stored with the point."""
    return {
        "name": instance.name,
        "hostname": instance.hostname,
        "cpu_cores": instance.cpu_cores,
        "ram": instance.ram,
        "tpm_enabled": instance.tpm_enabled,
        "secure_boot_enabled": instance.secure_boot_enabled,
        "disks": [{"id": disk.id, "name": disk.name, "position": disk.position} for disk in instance.disks],
    }


def describe_disk(entry, disk):
    return {
        "id": disk.id,
        "name": entry.name,
        "position": disk.position,
        "size": entry.size,
        "read_mode": entry.read_mode,
        "full_read_reason": entry.full_read_reason,
    }


def describe_statistics(statistics):
    return {
        "bytes_read": statistics.bytes_read,
        "bytes_stored": statistics.bytes_uploaded,
        "bytes_used": statistics.bytes_used,
        "chunks_stored": statistics.chunks_stored,
        "chunks_shared": statistics.chunks_reused,
    }


@task_handler("backup_chain_reset", conflicts_with=(*POWER_TASKS, *SUSPENSION_TASKS))
def reset_chain(work):
    """Delete the checkpoints of the instance's disks, and let its next backup read everything."""
    instance_id = get_instance(work).id
    retained = instance_backups.list_volume_checkpoints(instance_id)
    work.step(message("Deleting the recorded changes"), 20)
    with suppress(NotOnNode):
        if work.node.power(instance_id) is not Power.off:  # otherwise the next backup deletes them
            work.node.delete_checkpoints(instance_id, retained)
    instance_backups.reset_chain(get_instance(work))


def on_delete_failed(row, error):
    """Release the claim when the destination was not changed. Otherwise the outcome is not known, and it stays."""
    backup = instance_backups.find_by_id(row.resource_id)
    if backup and backup.delete_task_id == row.id and backup.delete_dispatched_at is None:
        instance_backups.release_claim(backup)


@task_handler("backup_delete", on_failure=on_delete_failed)
def delete(work):
    """Delete the point, and the row when the destination has confirmed that. What it used becomes garbage. Of a backup
    that was recovered from a copy only the row is deleted: the copy has a time of its own."""
    backup = instance_backups.find_by_id(work.task.resource_id)
    if backup is None or backup.delete_task_id != work.task.id:
        return
    if backup.is_recovered:
        return instance_backups.confirm_deletion(backup)
    work.step(message("Connecting to the storage"), 10)
    is_on_rbs = backup.is_on_rbs
    with open_repository(backup.repository) as repository:
        if is_on_rbs:
            repository.has_point(work.task.resource_id)  # opening it sent nothing; this fails before the dispatch
        delete_point(work, repository)
    instance_backups.confirm_deletion(instance_backups.find_by_id(work.task.resource_id))


def delete_point(work, repository):
    """Delete the point. After a failure the backup counts as dispatched unless the destination has answered and still
    has the point: without an answer it may delete the point later."""
    backup = instance_backups.find_by_id(work.task.resource_id)
    backup.delete_dispatched_at = clock.now()
    work.step(message("Deleting the backup"), 50)
    try:
        with translated_errors():
            repository.delete_point(backup.id)
    except StorageFailed as error:
        if not error.is_unanswered and has_point(repository, work.task.resource_id):
            instance_backups.find_by_id(work.task.resource_id).delete_dispatched_at = None
            session.commit()
        raise


def has_point(repository, point):
    """Return whether the destination certainly has the point."""
    try:
        return repository.has_point(point)
    except StoreError:
        return False


@periodic(seconds=300)
def reconcile_deletions():
    """Find out what became of deletions whose outcome is not known."""
    query = backup_operations.select_unconfirmed().limit(backup_operations.MAX_RECONCILED_PER_RUN)
    for backup_id in [backup.id for backup in session.scalars(query)]:
        reconcile_deletion(backup_id)


def reconcile_deletion(backup_id):
    """Ask the destination: delete the row when the point is gone, and end the claim when it is there."""
    backup = instance_backups.find_by_id(backup_id)
    if backup is None or not backup.is_claimed:
        return session.rollback()
    task_id = backup.delete_task_id
    try:
        with open_repository(backup.repository) as repository, translated_errors():
            is_gone = not repository.has_point(backup_id)
    except StorageFailed as error:
        log.warning("backup_deletion_unconfirmed", backup=backup_id, detail=error.detail)
        return session.rollback()
    backup = instance_backups.find_by_id(backup_id, lock=True)
    if backup is not None and backup.delete_task_id == task_id:
        instance_backups.confirm_deletion(backup) if is_gone else instance_backups.release_claim(backup)
        log.info("backup_deletion_reconciled", backup=backup_id, is_gone=is_gone)
    session.commit()
