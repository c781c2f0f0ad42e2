"""Create backups of instances, and record what workers report."""

import os
from base64 import b64encode
from typing import Any

from sqlalchemy import or_, select, update
from sqlalchemy.exc import IntegrityError

from panel.core import clock, jobs
from panel.core.db import session
from panel.core.errors import Conflict, Invalid, Unavailable
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import BackupDestination, BackupRepository, Hypervisor, Instance, InstanceBackup, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import backup_destinations, forges
from panel.services.instance_backups.delete import claim
from panel.services.instance_backups.read import match_resource
from panel.services.instance_backups.snapshots import find_snapshot
from panel.services.state_machine import TASK_RUNNING, ensure_allowed, make_problem

task_kind("backup_create", "Backup")
task_kind("backup_chain_reset", "Reset of the backup chain")

REPOSITORY_KEY_BYTES = 32
REPOSITORY_KEY_PREFIX = "panel-backup-key-1:"
"""The beginning of an exported key, which tells its format."""

REQUESTED, LOCATION_MODE, CHAIN_LENGTH = "requested", "backup_mode", "chain_length"
"""Why a backup has the type `full`: somebody chose it, the location's `backup_mode` is full, or the policy's chain of
incremental backups is as long as it may be."""

CUSTOMER_IMAGE_PURPOSES = ("general", "user")
"""Purposes of images that customers use themselves; machines from others are appliances."""


def create(
    instance: Instance,
    *,
    actor: str,
    name: str | None = None,
    description: str | None = None,
    backup_type: str | None = None,
    backup_device: str = "all",
    encrypted: bool = True,
    policy_id: str | None = None,
    destination_id: str | None = None,
    managed_group_id: str | None = None,
    full_read_reason: str | None = None,
) -> tuple[InstanceBackup, Task]:
    """Create the backup's row and its task; return both. Without a destination the first enabled one of the node is
    used, without a type that of the location. `full_read_reason` says why the type is `full`."""
    destination = get_new_backup_destination(instance, destination_id)
    backup = InstanceBackup(
        account_id=instance.account_id,
        repository=get_or_create_repository(destination, instance.account_id),
        destination=destination,
        instance_id=instance.id,
        recorded_name=instance.display_name,
        recorded_hostname=instance.hostname,
        is_appliance=instance.image is not None and instance.image.purpose not in CUSTOMER_IMAGE_PURPOSES,
        secure_boot_enabled=instance.secure_boot_enabled,
        name=name or f"{instance.hostname} {clock.now():%Y-%m-%d %H:%M}",
        description=description or "",
        backup_type=backup_type or instance.group.backup_mode,
        backup_device=backup_device,
        policy_id=policy_id,
        managed_group_id=managed_group_id,
    )
    session.add(backup)
    session.flush()
    default_reason = REQUESTED if backup_type else LOCATION_MODE
    task = jobs.enqueue(
        "backup_create",
        "instance",
        instance,
        lock="storage",
        actor=actor,
        hypervisor_id=instance.hypervisor_id,
        arguments={"backup_id": backup.id, "full_read_reason": full_read_reason or default_reason},
    )
    return backup, task


def get_new_backup_destination(instance: Instance, destination_id: str | None = None) -> BackupDestination:
    """Return where a new backup of the instance is stored. Raise for every reason why none can be requested now."""
    ensure_allowed(instance, "backup", by_operator=True)
    forges.ensure_not_active(instance)
    if find_open_backup(instance):
        raise make_problem(TASK_RUNNING)
    return get_destination(instance.hypervisor, destination_id)


def find_open_backup(instance: Instance) -> str | None:
    """Return the id of an open task that backs up the instance, or None."""
    conditions = Task.resource_id == instance.id, Task.kind == "backup_create", Task.status.in_(OPEN_STATUSES)
    return session.scalar(select(Task.id).where(*conditions).limit(1))


def get_destination(hypervisor: Hypervisor, destination_id: str | None = None) -> BackupDestination:
    """Return where new backups of the hypervisor are stored: the given destination, or the first that it may use."""
    if destination_id:
        chosen = BackupDestination.enabled, BackupDestination.id == destination_id
        query = backup_destinations.select_for_hypervisor(hypervisor).where(*chosen)
    else:
        query = backup_destinations.select_default_for_hypervisor(hypervisor)
    destination = session.scalar(query.limit(1))
    if destination is None and destination_id:
        sentence = message("The hypervisor has no such enabled destination.")
        raise Invalid(sentence, destination_id=sentence)
    if destination is None:
        raise Conflict(message("Backups are not available in this location."), reason="no_backup_destination")
    if destination.status == "unavailable":
        raise Unavailable(
            message("The backup storage is not available now. Try again later."), reason="backup_storage_unavailable"
        )
    return destination


def get_or_create_repository(destination: BackupDestination, account_id: str) -> BackupRepository:
    """Return the account's repository in the destination, with a new key if there was none."""
    query = select(BackupRepository).where(
        BackupRepository.destination_id == destination.id,
        BackupRepository.account_id == account_id,
        BackupRepository.copy_of_id.is_(None),
    )
    if repository := session.scalar(query):
        return repository
    repository = BackupRepository(destination=destination, account_id=account_id, key=generate_repository_key())
    try:
        with session.begin_nested():
            session.add(repository)
    except IntegrityError:  # another request has created it
        return session.scalars(query).one()
    return repository


def generate_repository_key() -> str:
    return REPOSITORY_KEY_PREFIX + b64encode(os.urandom(REPOSITORY_KEY_BYTES)).decode()


def find_previous(backup: InstanceBackup, full_read_reason: str | None = None) -> tuple[InstanceBackup | None, str]:
    """Return the backup from which this one can continue, or None and the reason why it reads everything; for the type
    `full` the given one."""
    if backup.backup_type == "full":
        return None, full_read_reason or REQUESTED
    query = select(InstanceBackup).where(
        *match_resource(backup),
        InstanceBackup.repository_id == backup.repository_id,
        InstanceBackup.status == "complete",
        InstanceBackup.id != backup.id,
    )
    previous = session.scalar(query.order_by(InstanceBackup.completed_at.desc(), InstanceBackup.id.desc()).limit(1))
    if previous is None:
        return None, "first_backup"
    if previous.is_chain_end:
        return None, "chain_reset"
    if not backup.machine_id:
        return None, "stopped"
    if previous.machine_id != backup.machine_id:
        return None, "no_checkpoint"
    return (None, "previous_missing") if previous.delete_dispatched_at else (previous, "")


def list_other_checkpoints(backup: InstanceBackup) -> list[str]:
    """Return the machine's checkpoints from which other backups continue."""
    checkpoints = map_checkpoints(backup.machine_id) if backup.machine_id else {}
    checkpoints.pop((backup.volume_id, backup.repository_id), None)
    return [checkpoint for checkpoint in checkpoints.values() if checkpoint]


def list_volume_checkpoints(machine_id: str) -> list[str]:
    """Return the machine's checkpoints from which backups of its volumes continue."""
    return [
        checkpoint for (volume_id, _), checkpoint in map_checkpoints(machine_id).items() if volume_id and checkpoint
    ]


def map_checkpoints(machine_id: str) -> dict[tuple[str | None, str], str | None]:
    """Return the last checkpoint of each chain of the machine's backups. A chain is of the instance (None) or of one of
    its volumes, in one repository."""
    query = select(InstanceBackup.volume_id, InstanceBackup.repository_id, InstanceBackup.checkpoint).where(
        or_(InstanceBackup.instance_id == machine_id, InstanceBackup.checkpoint_machine_id == machine_id),
        InstanceBackup.status == "complete",
    )
    rows = session.execute(query.order_by(InstanceBackup.completed_at, InstanceBackup.id))
    return {(volume_id, repository_id): checkpoint for volume_id, repository_id, checkpoint in rows}


def end_volume_chain(volume_id: str) -> None:
    """Let the next backup of the volume read everything, because it is not in the same machine any more."""
    statement = update(InstanceBackup).where(
        InstanceBackup.volume_id == volume_id, InstanceBackup.checkpoint_machine_id.is_not(None)
    )
    session.execute(statement.values(checkpoint_machine_id=None))


def record_complete(
    backup: InstanceBackup,
    *,
    disks: list[dict[str, Any]],
    statistics: dict[str, Any],
    consistency: str,
    checkpoint: str | None,
    parent_backup_id: str | None,
) -> None:
    """Record a backup that the repository has completely."""
    backup.status, backup.error, backup.completed_at = "complete", None, clock.now()
    backup.disks, backup.statistics, backup.size = disks, statistics, statistics["bytes_stored"]
    backup.consistency, backup.checkpoint = consistency, checkpoint
    reasons = [disk["full_read_reason"] for disk in disks if disk["read_mode"] == "full"]
    backup.backup_type = "full" if len(reasons) == len(disks) else "incremental"
    backup.chain_reason = reasons[0] if reasons else None
    backup.parent_backup_id = parent_backup_id if backup.backup_type == "incremental" else None
    if backup.is_on_rbs and backup.parent_backup_id:
        snapshot = find_snapshot(backup.parent_backup_id)
        backup.based_on_backup_id = backup.parent_backup_id
        backup.based_on_rbs_backup_time = snapshot[2] if snapshot else None


def record_failed(backup: InstanceBackup, error: str) -> bool:
    """Record why an incomplete backup failed. Return whether it was incomplete."""
    if backup.status != "creating":
        return False
    backup.status, backup.error = "failed", error
    return True


def ensure_disk_known(instance: Instance, disk_id: str | None) -> None:
    """Raise `unknown_disk` for a disk of another instance."""
    if disk_id and disk_id not in {disk.id for disk in instance.disks}:
        sentence = message("The instance has no such disk.")
        raise Invalid(sentence, reason="unknown_disk", disk_id=sentence)


def enqueue_chain_reset(instance: Instance, actor: str) -> Task:
    return jobs.enqueue(
        "backup_chain_reset",
        "instance",
        instance,
        lock="storage",
        actor=actor,
        hypervisor_id=instance.hypervisor_id,
    )


def reset_chain(instance: Instance, disk_id: str | None = None) -> None:
    """Let the next backup of the instance read everything, or one disk completely."""
    conditions = InstanceBackup.instance_id == instance.id, InstanceBackup.status == "complete"
    if disk_id is None:
        session.execute(update(InstanceBackup).where(*conditions).values(is_chain_end=True))
        return
    for backup in session.scalars(select(InstanceBackup).where(*conditions)):
        backup.reset_disk_ids = [*{*backup.reset_disk_ids, disk_id}]


def on_instance_destroyed(instance: Instance, *, delete_backups: bool, actor: str) -> None:
    """Record that the instance is gone; with `delete_backups` request the deletion of its unprotected backups."""
    statement = update(InstanceBackup).where(InstanceBackup.instance_id == instance.id)
    session.execute(statement.values(instance_deleted_at=clock.now()))
    incomplete = statement.where(InstanceBackup.status == "creating")
    session.execute(incomplete.values(status="failed", error=message("The instance was destroyed in the meantime.")))
    if not delete_backups:
        return
    query = select(InstanceBackup).where(
        InstanceBackup.instance_id == instance.id,
        InstanceBackup.account_id == instance.account_id,
        InstanceBackup.protected.is_(False),
        InstanceBackup.delete_claimed_at.is_(None),
        InstanceBackup.status != "creating",
    )
    for backup in session.scalars(query):
        claim(backup, actor=actor)
