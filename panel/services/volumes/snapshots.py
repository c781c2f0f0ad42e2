"""Copies of volumes: take one, put it back, make a new volume of it, delete it."""

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.models import Hypervisor, VolumeSnapshot
from panel.services import disks
from panel.services.instances.create import Capacity
from panel.services.volumes.actions import create, enqueue

MAX_SNAPSHOTS_PER_VOLUME = 20
"""Snapshots that a volume may have."""


def get_snapshot(volume, snapshot_id):
    found = next((each for each in volume.snapshots if each.id == snapshot_id), None)
    if found is None:
        raise NotFound("The volume has no such snapshot.")
    return found


def create_snapshot(volume, *, actor, name=None):
    """A full copy, also of a volume in use. Returns it with the task."""
    if volume.status not in ("available", "attached"):
        raise Invalid(f"The volume cannot be copied: it is {volume.status}.", reason="volume_not_available")
    if volume.instance:
        disks.ensure_changeable(volume.instance)
    taken = {each.name for each in volume.snapshots}
    name = name or next(f"snapshot-{n}" for n in range(1, MAX_SNAPSHOTS_PER_VOLUME + 2) if f"snapshot-{n}" not in taken)
    if name in taken:
        raise Invalid("This name is taken.", name="This name is taken.")
    if len(taken) >= MAX_SNAPSHOTS_PER_VOLUME:
        sentence = f"A volume has at most {MAX_SNAPSHOTS_PER_VOLUME} snapshots. Delete one first."
        raise Invalid(sentence, reason="snapshot_limit", name=sentence)
    ensure_capacity(volume.on, volume.reserved_size)
    made = VolumeSnapshot(volume=volume, on=volume.on, name=name, size=volume.reserved_size)
    session.add(made)
    session.flush()
    return made, enqueue(volume, "snapshot", actor, snapshot_id=made.id, instance_id=volume.instance_id)


def ensure_capacity(storage, size):
    held = select(Hypervisor).where(Hypervisor.id == storage.hypervisor_id).with_for_update(of=Hypervisor)
    host = session.scalar(held.execution_options(populate_existing=True))
    if Capacity([host]).disk[storage] < size:
        raise Invalid("The volume's hypervisor has not enough storage left.", reason="storage_not_sufficient")


def ensure_usable(snapshot):
    if snapshot.status != "available":
        raise Conflict(f"The snapshot cannot be used: it is {snapshot.status}.", reason="snapshot_not_available")


def delete_snapshot(snapshot, *, actor):
    if snapshot.status not in ("available", "failed"):
        raise Conflict("The snapshot is being worked on. Wait until that has ended.", reason="task_running")
    snapshot.status = "deleting"
    return enqueue(snapshot.volume, "snapshot_delete", actor, snapshot_id=snapshot.id)


def restore(
    snapshot, *, mode, account, actor, volume_plan_id=None, hypervisor_group_id=None, name=None, project_id=None
):
    """Puts the copy back in the volume's place (`in_place`), or into a new volume of the account. Returns the task."""
    ensure_usable(snapshot)
    volume = snapshot.volume
    if mode == "in_place":
        if volume.status != "available":
            raise Invalid("The volume is in use. Detach it first.", mode="Only a detached volume can be put back.")
        ensure_capacity(snapshot.on, snapshot.size)
        snapshot.status = "restoring"
        return enqueue(volume, "restore", actor, snapshot_id=snapshot.id, copy_name=make_copy_name(volume))
    for field, value in (("volume_plan_id", volume_plan_id), ("hypervisor_group_id", hypervisor_group_id)):
        if not value:
            raise Invalid("A new volume needs a plan and a location.", **{field: "Fill this in."})
    if hypervisor_group_id != volume.group_id:
        sentence = "The new volume has to be in the location of the snapshot."
        raise Invalid(sentence, hypervisor_group_id=sentence)
    made = create(
        account,
        name=name or f"{volume.name} from {snapshot.name}"[:255],
        volume_plan_id=volume_plan_id,
        hypervisor_group_id=hypervisor_group_id,
        project_id=project_id,
        actor=actor,
        storage=snapshot.on,
    )
    if made.size < snapshot.size:
        raise Invalid(disks.SHRINK_MESSAGE, volume_plan_id="The plan is smaller than the snapshot.")
    ensure_capacity(snapshot.on, 0)
    made.used, snapshot.status = True, "restoring"
    return enqueue(made, "create", actor, snapshot_id=snapshot.id)


def make_copy_name(volume):
    """The next name of the volume's disk: the guest sees only what is before the first dot."""
    stem, *rest = volume.disk_name.removesuffix(".qcow2").split(".")
    return f"{stem}.{int(rest[0]) + 1 if rest else 1}.qcow2"
