"""Restore a backup on a backup server to a new instance of the same account."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Disk, Hypervisor, Instance, InstanceBackup, Task
from panel.services import backup_destinations, hypervisors, placement
from panel.services.backup_restores import BYTES_PER_GIB, ensure_node_available, ensure_restorable, refuse_disk
from panel.services.instance_backups.read import NO_BACKUP_MESSAGE
from panel.services.instances.create import create as create_instance
from panel.services.instances.self_provisioning import create_from_pack

task_kind("backup_restore_new", "Restore of a backup to a new instance")

REQUIRED_MESSAGE = message("Required, because the instance of the backup does not exist any more.")


@dataclass(frozen=True)
class NewInstancePlan:
    """What is going to be created. Everything that is known before was checked."""

    backup: InstanceBackup
    hypervisor: Hypervisor
    plan_id: str
    names: dict[str, Any]
    """Host name and display name."""


def get_backup(source_instance_id: str, backup_id: str) -> InstanceBackup:
    """Return a backup of this instance, which may not exist any more. Raise `backup_not_found` for any other."""
    conditions = InstanceBackup.id == backup_id, InstanceBackup.instance_id == source_instance_id
    backup = session.scalar(select(InstanceBackup).where(*conditions))
    if backup is None:
        raise NotFound(NO_BACKUP_MESSAGE, reason="backup_not_found")
    return backup


def prepare(
    backup: InstanceBackup,
    *,
    hypervisor_id: str | None = None,
    plan_id: str | None = None,
    hostname: str | None = None,
    display_name: str | None = None,
) -> NewInstancePlan:
    """Check everything that can be checked before the node is called. The hypervisor and plan default to those of the
    backup's instance."""
    if not backup.is_on_rbs:
        raise Invalid(message("Only backups on a backup server can be restored like this."), reason="not_rbs_backup")
    ensure_restorable(backup)
    if source := backup.instance:
        hypervisor_id, plan_id = hypervisor_id or source.hypervisor_id, plan_id or source.plan_id
    if not hypervisor_id or not plan_id:
        values = {"hypervisor_id": hypervisor_id, "plan_id": plan_id}
        fields = {name: REQUIRED_MESSAGE for name, value in values.items() if not value}
        raise Invalid(REQUIRED_MESSAGE, **fields)
    hypervisor = hypervisors.get(hypervisor_id, "hypervisor_id")
    if backup_destinations.find_for_hypervisor(hypervisor) != backup.destination:
        sentence = message("The hypervisor uses another backup destination.")
        raise Conflict(sentence, reason="destination_mismatch")
    ensure_node_available(hypervisor)
    names = {
        "hostname": hostname or backup.recorded_hostname,
        "display_name": display_name or backup.recorded_name,
    }
    return NewInstancePlan(backup, hypervisor, plan_id, names)


def create(plan: NewInstancePlan, *, actor: str) -> tuple[Instance, Task]:
    """Create the instance with the disks of the backup, and enqueue the restore. Nothing is created if it is refused:
    the caller rolls back."""
    backup, source = plan.backup, plan.backup.instance
    settings: dict[str, Any] = {
        "node": plan.hypervisor,
        "secure_boot_enabled": backup.secure_boot_enabled,
        "location_id": plan.hypervisor.group_id,
        "plan_id": plan.plan_id,
        "actor": actor,
    }
    mode = source.billing_mode if source else "cloud_service"
    if mode == "self_provisioned":
        instance = create_from_pack(backup.account, **settings, **plan.names)
    else:
        instance = create_instance(backup.account, billing_mode=mode, **settings, **plan.names)
    instance.image = source.image if source else None
    task = jobs.enqueue(
        "backup_restore_new",
        "instance",
        instance,
        lock="exclusive",
        actor=actor,
        hypervisor_id=instance.hypervisor_id,
        arguments={"backup_id": backup.id, "disks": add_disks(instance, backup)},
    )
    task.source_backup_id, task.source_backup_at = backup.id, backup.created_at
    session.flush()
    return instance, task


def add_disks(instance: Instance, backup: InstanceBackup) -> dict[str, str]:
    """Give the instance a disk for each stored one. Return which one goes to which: {disk id: name in the point}."""
    first, *others = sorted(backup.disks, key=lambda archive: archive["position"])
    if instance.disks[0].size * BYTES_PER_GIB < first["size"]:
        raise refuse_disk(message("The disk of the plan is smaller than the stored one."), "target_disk_too_small")
    targets, storage = {instance.disks[0].id: first["name"]}, instance.disks[0].storage
    for position, archive in enumerate(others, start=1):
        size = -(-archive["size"] // BYTES_PER_GIB)
        placement.ensure_space(storage, size, message("The storage of the hypervisor has no room for the disks."))
        disk = Disk(
            instance=instance,
            storage_id=storage.id,
            name=f"{instance.name}-{position}.qcow2",
            position=position,
            size=size,
        )
        session.add(disk)
        session.flush()
        targets[disk.id] = archive["name"]
    return targets
