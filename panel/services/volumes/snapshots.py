"""Snapshots of volumes: create, restore in place or to a new volume, delete."""

from panel.core.db import session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Account, Storage, Task, Volume, VolumeSnapshot
from panel.services import disks, placement
from panel.services.access import Access
from panel.services.volumes.actions import create, enqueue

task_kind("volume_snapshot", "New volume snapshot")
task_kind("volume_snapshot_delete", "Volume snapshot removal")
task_kind("volume_restore", "Volume rollback")

MAX_SNAPSHOTS_PER_VOLUME = 20
"""Maximum number of snapshots of a volume."""


def get_snapshot(volume: Volume, snapshot_id: str) -> VolumeSnapshot:
    snapshot = next((candidate for candidate in volume.snapshots if candidate.id == snapshot_id), None)
    if snapshot is None:
        raise NotFound(message("The volume has no such snapshot."))
    return snapshot


def create_snapshot(volume: Volume, *, actor: str, name: str | None = None) -> tuple[VolumeSnapshot, Task]:
    """Create a full copy, also of a volume in use. Return it with its task."""
    if volume.status not in ("available", "attached"):
        raise Invalid(
            message("The volume cannot be copied: it is {status}.", status=volume.status), reason="volume_not_available"
        )
    if volume.instance:
        disks.ensure_changeable(volume.instance)
    existing_names = {other.name for other in volume.snapshots}
    name = name or next(
        f"snapshot-{n}" for n in range(1, MAX_SNAPSHOTS_PER_VOLUME + 2) if f"snapshot-{n}" not in existing_names
    )
    if name in existing_names:
        raise Invalid(message("This name is taken."), name=message("This name is taken."))
    if len(existing_names) >= MAX_SNAPSHOTS_PER_VOLUME:
        sentence = message(
            "A volume has at most {maximum} snapshots. Delete one first.", maximum=MAX_SNAPSHOTS_PER_VOLUME
        )
        raise Invalid(sentence, reason="snapshot_limit", name=sentence)
    ensure_capacity(volume.storage, volume.reserved_size)
    snapshot = VolumeSnapshot(volume=volume, storage=volume.storage, name=name, size=volume.reserved_size)
    session.add(snapshot)
    session.flush()
    return snapshot, enqueue(volume, "snapshot", actor, snapshot_id=snapshot.id, instance_id=volume.instance_id)


def ensure_capacity(storage: Storage, size: int) -> None:
    placement.ensure_space(storage, size, placement.VOLUME_STORAGE_FULL_MESSAGE)


def ensure_usable(snapshot: VolumeSnapshot) -> None:
    if snapshot.status != "available":
        raise Conflict(
            message("The snapshot cannot be used: it is {status}.", status=snapshot.status),
            reason="snapshot_not_available",
        )


def delete_snapshot(snapshot: VolumeSnapshot, *, actor: str) -> Task:
    if snapshot.status not in ("available", "failed"):
        raise Conflict(
            message("A task of the snapshot is in progress. Try again when it has finished."), reason="task_running"
        )
    snapshot.status = "deleting"
    return enqueue(snapshot.volume, "snapshot_delete", actor, snapshot_id=snapshot.id)


def restore(
    snapshot: VolumeSnapshot,
    *,
    mode: str,
    account: Access | Account,
    actor: str,
    volume_plan_id: str | None = None,
    hypervisor_group_id: str | None = None,
    name: str | None = None,
    project_id: str | None = None,
) -> Task:
    """Restore the snapshot to its volume (`in_place`) or to a new volume of the account. Return the task."""
    ensure_usable(snapshot)
    volume = snapshot.volume
    if mode == "in_place":
        if volume.status != "available":
            raise Invalid(
                message("The volume is in use. Detach it first."),
                mode=message("Only a detached volume can be restored."),
            )
        ensure_capacity(snapshot.storage, snapshot.size)
        snapshot.status = "restoring"
        return enqueue(volume, "restore", actor, snapshot_id=snapshot.id, copy_name=make_copy_name(volume))
    if not volume_plan_id:
        raise missing_field_error("volume_plan_id")
    if not hypervisor_group_id:
        raise missing_field_error("hypervisor_group_id")
    if hypervisor_group_id != volume.group_id:
        sentence = message("The new volume has to be in the location of the snapshot.")
        raise Invalid(sentence, hypervisor_group_id=sentence)
    new_volume = create(
        account,
        name=name or f"{volume.name} from {snapshot.name}"[:255],
        volume_plan_id=volume_plan_id,
        hypervisor_group_id=hypervisor_group_id,
        project_id=project_id,
        actor=actor,
        storage=snapshot.storage,
    )
    if new_volume.size < snapshot.size:
        raise Invalid(disks.SHRINK_MESSAGE, volume_plan_id=message("The plan is smaller than the snapshot."))
    ensure_capacity(snapshot.storage, 0)
    new_volume.ever_attached, snapshot.status = True, "restoring"
    return enqueue(new_volume, "create", actor, snapshot_id=snapshot.id)


def missing_field_error(error_field: str) -> Invalid:
    return Invalid(message("A new volume needs a plan and a location."), **{error_field: message("Fill this in.")})


def make_copy_name(volume: Volume) -> str:
    """Return the next name of the volume's disk. The guest sees only the part before the first dot."""
    stem, *numbers = volume.disk_name.removesuffix(".qcow2").split(".")
    return f"{stem}.{int(numbers[0]) + 1 if numbers else 1}.qcow2"
