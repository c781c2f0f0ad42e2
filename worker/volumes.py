"""What the tasks of volumes do on their node. Each waits for what was asked for before it, and may run twice."""

import time
from contextlib import suppress

from sqlalchemy import select

from panel import clock
from panel.db import session
from panel.errors import NotFound
from panel.models import Instance, Task, VolumePlan
from panel.models.tasks import OPEN
from panel.services import usage
from panel.services.volumes.read import by_id, snapshot_by_id
from worker.kinds import task
from worker.nodes import base
from worker.nodes.base import GiB, Missing
from worker.task import WAIT


def disk_of(row, name=None):
    return base.Disk(row.on.name, name or row.disk_name, row.size * GiB)


def asked(work):
    """The volume, once the task before this one has ended."""
    if earlier := work.task.arguments.get("after"):
        waiting = select(Task.id).where(Task.id == earlier, Task.status.in_(OPEN))
        if session.scalar(waiting):
            work.step("Waiting for another task on the volume", 0)
            while session.scalar(waiting):
                work.check()
                time.sleep(WAIT)
    volume = by_id(work.task.resource_id)
    if volume is None:
        raise NotFound("The volume was deleted meanwhile.")
    return volume


def snapshot(work):
    found = snapshot_by_id(work.task.arguments["snapshot_id"])
    if found is None:
        raise NotFound("The snapshot was deleted meanwhile.")
    return found


def failed(row, error):
    if volume := by_id(row.resource_id):
        volume.status, volume.error = "failed", error
    if "snapshot_id" in row.arguments:
        snapshot_stays(row, None)


def available(row, error):
    """It could not be attached."""
    if (volume := by_id(row.resource_id)) and volume.status == "attached":
        volume.instance, volume.status, volume.error = None, "available", error


def attached(row, error):
    """The guest did not let it go."""
    if volume := by_id(row.resource_id):
        volume.instance = session.get(Instance, row.arguments["instance_id"])
        volume.status, volume.error = "attached" if volume.instance else "available", error


def still_there(row, error):
    attached(row, error)
    usage.resume(row.resource_id)


def as_before(row, error):
    if volume := by_id(row.resource_id):
        before = row.arguments["before"]
        volume.plan, volume.size = session.get(VolumePlan, before["plan_id"]), before["size"]
        volume.error = error
        usage.change(volume, plan=volume.plan.name, price=volume.plan.price)


def no_snapshot(row, error):
    if found := snapshot_by_id(row.arguments["snapshot_id"]):
        found.status, found.error = "failed", error


def snapshot_stays(row, error):
    if found := snapshot_by_id(row.arguments["snapshot_id"]):
        found.status, found.error = "available", error


@task("volume_create", ended_badly=failed)
def create(work):
    """Blank, or from a snapshot."""
    volume = asked(work)
    work.step("Creating the disk", 20)
    work.undo("delete_disk", volume.on.name, volume.disk_name)
    if "snapshot_id" in work.task.arguments:
        work.node.copy_disk(disk_of(snapshot(work)), disk_of(volume))
        work.node.grow_disk(disk_of(volume))
        snapshot(work).status = "available"
    else:
        work.node.create_disk(disk_of(volume))
    volume.status = "available"


@task("volume_forget")
def forget(work):
    """A volume that never was used moved to another node."""
    work.step("Removing the disk", 20)
    work.node.delete_disk(work.task.arguments["pool"], work.task.arguments["name"])


@task("volume_attach", ended_badly=available)
def attach(work):
    volume, instance_id = asked(work), work.task.arguments["instance_id"]
    if volume.instance_id != instance_id:
        return  # asked otherwise meanwhile
    disk = disk_of(volume)
    if not volume.used:
        work.step("Creating the disk", 20)
        work.node.create_disk(disk)
        volume.used = True
    work.step("Attaching the volume", 50)
    work.undo("detach_disk", instance_id, disk.pool, disk.name)
    work.node.attach_disk(instance_id, disk)


@task("volume_detach", ended_badly=attached)
def detach(work):
    volume = asked(work)
    work.step("Waiting for the guest to let the volume go", 20)
    let_go(work, volume)


def let_go(work, volume):
    """From an instance that is gone there is nothing to be taken."""
    instance = session.get(Instance, work.task.arguments["instance_id"] or "")
    if instance is not None and instance.deployed:
        with suppress(Missing):
            work.node.detach_disk(instance.id, volume.on.name, volume.disk_name)


@task("volume_resize", ended_badly=as_before)
def resize(work):
    volume = asked(work)
    work.step("Growing the disk", 20)
    work.node.grow_disk(disk_of(volume), work.task.arguments["instance_id"])


@task("volume_delete", ended_badly=still_there)
def delete(work):
    volume = asked(work)
    work.step("Waiting for the guest to let the volume go", 20)
    let_go(work, volume)
    work.step("Deleting the disk", 60)
    for kept in volume.snapshots:
        work.node.delete_disk(kept.on.name, kept.disk_name)
    work.node.delete_disk(volume.on.name, volume.disk_name)
    session.delete(volume)


@task("volume_snapshot", ended_badly=no_snapshot)
def take(work):
    """While it is in use its changes lie beside it for as long as the copy takes."""
    volume, found, instance_id = asked(work), snapshot(work), work.task.arguments["instance_id"]
    disk = disk_of(volume)
    running = instance_id and work.node.power(instance_id) is not base.Power.off
    work.undo("delete_disk", disk.pool, found.disk_name)
    if running:
        work.undo("merge_overlay", instance_id, disk.pool, disk.name)
        work.step("Holding the volume", 10)
        work.node.lay_overlays(instance_id, [disk])
    work.step("Copying the volume", 30)
    work.node.copy_disk(disk, disk_of(found))
    if running:
        work.step("Letting the volume go on", 90)
        work.node.merge_overlay(instance_id, disk.pool, disk.name)
    found.status, found.error, found.taken_at = "available", None, clock.now()


@task("volume_snapshot_delete", ended_badly=snapshot_stays)
def delete_snapshot(work):
    asked(work)
    found = snapshot(work)
    work.step("Deleting the copy", 20)
    work.node.delete_disk(found.on.name, found.disk_name)
    session.delete(found)


@task("volume_restore", ended_badly=snapshot_stays)
def restore(work):
    """The volume keeps what it has until the copy of the snapshot is complete."""
    volume, found, name = asked(work), snapshot(work), work.task.arguments["copy_name"]
    old = volume.disk_name
    if old != name:
        work.undo("delete_disk", volume.on.name, name)
        work.step("Copying the snapshot", 20)
        work.node.copy_disk(disk_of(found), disk_of(volume, name))
        work.node.grow_disk(disk_of(volume, name))
        volume.disk_name, volume.used = name, True
    found.status, found.error = "available", None
    if old != name:
        work.update(undo=[["delete_disk", volume.on.name, old]])
        work.step("Removing what was there", 90)
        work.node.delete_disk(volume.on.name, old)
