"""Tasks of volumes. Each waits for the volume's task before it, and may run twice."""

import time
from contextlib import suppress
from datetime import timedelta

from sqlalchemy import or_, select

from panel.core import clock
from panel.core.db import session
from panel.core.errors import NotFound, Problem
from panel.core.messages import get_message, message
from panel.models import Instance, Task, Volume, VolumePlan
from panel.models.tasks import OPEN_STATUSES
from panel.services import instance_backups, usage, volumes
from panel.services.volumes.read import find_by_id, find_snapshot_by_id
from worker.engine.registry import periodic, task_handler
from worker.engine.runner import TASK_WAIT_INTERVAL_SECONDS
from worker.nodes import base
from worker.nodes.base import GiB, NodeError, NotOnNode

FIRST_DELETE_RETRY_SECONDS, MAX_DELETE_RETRY_SECONDS = 10, 3600
"""Seconds until a failed deletion is retried: the first pause, which doubles each time, and the longest."""
MAX_DELETES_PER_RUN = 100
HARMLESS_TASKS = ("volume_backup",)
"""Kinds of tasks that change nothing, so that others may begin after they failed."""


def build_volume_disk(row, name=None, size=None):
    return base.Disk(row.storage.name, name or row.disk_name, (size or row.size) * GiB)


class PredecessorFailed(Problem):
    """The task before this one failed."""


def get_volume_in_turn(work):
    """Return the volume once the tasks before this one have ended. Raise PredecessorFailed when they failed."""
    wait_for_earlier(work)
    if earlier := find_failed_predecessors(work.task):
        raise PredecessorFailed(
            message("Not started, because an earlier operation on the volume failed: {error}", error=earlier[-1].error)
        )
    return get_volume(work)


def wait_for_earlier(work):
    if earlier := work.task.arguments.get("after"):
        waiting = select(Task.id).where(Task.id == earlier, Task.status.in_(OPEN_STATUSES))
        if session.scalar(waiting):
            work.step(message("Waiting for another task on the volume"), 0)
            while session.scalar(waiting):
                work.check()
                time.sleep(TASK_WAIT_INTERVAL_SECONDS)


def find_failed_predecessors(row):
    """Return the failed tasks just before this one, the nearest first. The last one is the cause."""
    failed = []
    while earlier := session.get(Task, row.arguments.get("after") or "", populate_existing=True):
        if earlier.kind not in HARMLESS_TASKS:
            if earlier.status not in ("failed", "cancelled"):
                break
            failed.append(earlier)
        row = earlier
    return failed


def get_volume(work):
    volume = find_by_id(work.task.arguments.get("volume_id", work.task.resource_id))
    if volume is None:
        raise NotFound(message("The volume was deleted in the meantime."))
    return volume


def get_snapshot(work):
    snapshot = find_snapshot_by_id(work.task.arguments["snapshot_id"])
    if snapshot is None:
        raise NotFound(message("The snapshot was deleted in the meantime."))
    return snapshot


def find_undeleted_volume(row):
    """Return the volume of a failed task; None when it is being deleted or gone."""
    volume = find_by_id(row.resource_id)
    return volume if volume and volume.status != "deleting" else None


def on_create_failed(row, error):
    if volume := find_undeleted_volume(row):
        volume.status, volume.error = "failed", error
    if "snapshot_id" in row.arguments:
        on_snapshot_change_failed(row, None)


def on_attach_failed(row, error):
    """Record the error and make the volume available again."""
    if volume := find_undeleted_volume(row):
        volume.error = error
        if volume.status == "attached" and not find_failed_predecessors(row):
            volume.instance, volume.status = None, "available"


def on_detach_failed(row, error):
    """Record the error and that the volume is still attached.

    If an earlier task failed, its own failure handler has corrected the row already.
    """
    if volume := find_undeleted_volume(row):
        volume.error = error
        if not find_failed_predecessors(row):
            volume.instance = session.get(Instance, row.arguments["instance_id"])
            volume.status = "attached" if volume.instance else "available"


def on_resize_failed(row, error):
    """Record the error and return to the earlier plan and price.

    If an earlier resize failed, too, the row already has the plan from before both.
    """
    if volume := find_undeleted_volume(row):
        volume.error, volume.growing_to = error, None
        if not any(task.kind == "volume_resize" for task in find_failed_predecessors(row)):
            volume.plan = session.get(VolumePlan, row.arguments["before"]["plan_id"])
            usage.change_price(volume, plan=volume.plan.name, price=volume.plan.price)


def on_delete_failed(row, error):
    """Schedule the next attempt. A volume that was reported as deleted stays so for its owner."""
    if volume := find_by_id(row.resource_id):
        delay = min(FIRST_DELETE_RETRY_SECONDS * 2**volume.delete_attempts, MAX_DELETE_RETRY_SECONDS)
        volume.delete_attempts, volume.error = volume.delete_attempts + 1, error
        volume.next_delete_at = clock.now() + timedelta(seconds=delay)


@periodic(seconds=10)
def retry_deletes():
    """Request due deletions again. Also finds volumes whose task was lost."""
    due = volumes.select_undeleted().where(or_(Volume.next_delete_at.is_(None), Volume.next_delete_at <= clock.now()))
    for volume in session.scalars(due.limit(MAX_DELETES_PER_RUN).with_for_update(of=Volume, skip_locked=True)):
        volumes.retry_delete(volume)
    session.commit()


def on_snapshot_failed(row, error):
    if snapshot := find_snapshot_by_id(row.arguments["snapshot_id"]):
        snapshot.status, snapshot.error = "failed", error


def on_snapshot_change_failed(row, error):
    if snapshot := find_snapshot_by_id(row.arguments["snapshot_id"]):
        snapshot.status, snapshot.error = "available", error


@task_handler("volume_create", on_failure=on_create_failed)
def create(work):
    """Create the volume's disk, blank or from a snapshot."""
    volume = get_volume_in_turn(work)
    work.step(message("Creating the disk"), 20)
    work.undo("delete_disk", volume.storage.name, volume.disk_name)
    if "snapshot_id" in work.task.arguments:
        work.node.copy_disk(build_volume_disk(get_snapshot(work)), build_volume_disk(volume))
        work.node.grow_disk(build_volume_disk(volume))
        get_snapshot(work).status = "available"
    else:
        work.node.create_disk(build_volume_disk(volume))
    volume.status = "available"


@task_handler("volume_forget")
def delete_old_disk(work):
    """Delete the disk that an unused volume left when it moved to another node."""
    work.step(message("Removing the disk"), 20)
    work.node.delete_disk(work.task.arguments["pool"], work.task.arguments["name"])


@task_handler("volume_attach", on_failure=on_attach_failed)
def attach(work):
    volume, instance_id = get_volume_in_turn(work), work.task.arguments["instance_id"]
    if volume.instance_id != instance_id:
        return  # a later request has detached or moved it
    disk = build_volume_disk(volume)
    if not volume.ever_attached:
        work.step(message("Creating the disk"), 20)
        work.node.create_disk(disk)
        volume.ever_attached = True
    work.step(message("Attaching the volume"), 50)
    work.undo("detach_disk", instance_id, disk.pool, disk.name)
    work.node.attach_disk(instance_id, disk)


@task_handler("volume_detach", on_failure=on_detach_failed)
def detach(work):
    volume = get_volume_in_turn(work)
    work.step(message("Waiting for the guest to release the volume"), 20)
    detach_from_guest(work, volume)
    instance_backups.end_volume_chain(volume.id)


def detach_from_guest(work, volume, instance_id=None):
    """Detach the disk from the machine. Does nothing when the instance or the machine is gone."""
    instance = session.get(Instance, instance_id or work.task.arguments.get("instance_id") or "")
    if instance is not None and instance.deployed:
        with suppress(NotOnNode):
            work.node.detach_disk(instance.id, volume.storage.name, volume.disk_name)


@task_handler("volume_resize", on_failure=on_resize_failed)
def resize(work):
    volume = get_volume_in_turn(work)
    size = work.task.arguments.get("size", volume.size)
    work.step(message("Growing the disk"), 20)
    work.node.grow_disk(build_volume_disk(volume, size=size), work.task.arguments["instance_id"])
    volume.size, volume.error = size, None
    if (volume.growing_to or 0) <= size:
        volume.growing_to = None


@task_handler("volume_delete", on_failure=on_delete_failed)
def delete(work):
    """Delete the volume and its snapshots, even when the tasks before this one failed."""
    wait_for_earlier(work)
    volume = find_by_id(work.task.resource_id)
    if volume is None:
        return
    arguments = work.task.arguments
    try:
        work.step(message("Waiting for the guest to release the volume"), 20)
        for instance_id in arguments.get("instance_ids") or [arguments.get("instance_id")]:
            detach_from_guest(work, volume, instance_id)
        work.step(message("Deleting the disk"), 60)
        for snapshot in volume.snapshots:
            work.node.delete_disk(snapshot.storage.name, snapshot.disk_name)
        work.node.delete_disk(volume.storage.name, volume.disk_name)
    except NodeError as error:
        raise type(error)(message("{error} It is tried again.", error=get_message(error)), error.detail) from error
    session.delete(volume)


@task_handler("volume_snapshot", on_failure=on_snapshot_failed)
def create_snapshot(work):
    """Copy the volume's disk. While a running guest uses it, its writes go to an overlay during the copy."""
    volume, snapshot, instance_id = get_volume_in_turn(work), get_snapshot(work), work.task.arguments["instance_id"]
    disk = build_volume_disk(volume)
    running = instance_id and work.node.power(instance_id) is not base.Power.off
    work.undo("delete_disk", disk.pool, snapshot.disk_name)
    if running:
        work.undo("commit_overlay", instance_id, disk.pool, disk.name)
        work.step(message("Pausing writes to the volume"), 10)
        work.node.create_overlays(instance_id, [disk])
    work.step(message("Copying the volume"), 30)
    work.node.copy_disk(disk, build_volume_disk(snapshot))
    if running:
        work.step(message("Resuming the volume"), 90)
        work.node.commit_overlay(instance_id, disk.pool, disk.name)
    snapshot.status, snapshot.error, snapshot.taken_at = "available", None, clock.now()


@task_handler("volume_snapshot_delete", on_failure=on_snapshot_change_failed)
def delete_snapshot(work):
    get_volume_in_turn(work)
    snapshot = get_snapshot(work)
    work.step(message("Deleting the copy"), 20)
    work.node.delete_disk(snapshot.storage.name, snapshot.disk_name)
    session.delete(snapshot)


@task_handler("volume_restore", on_failure=on_snapshot_change_failed)
def restore(work):
    """Copy the snapshot to a new disk and switch the volume to it when the copy is complete."""
    volume, snapshot, name = get_volume_in_turn(work), get_snapshot(work), work.task.arguments["copy_name"]
    old_name = volume.disk_name
    if old_name != name:
        work.undo("delete_disk", volume.storage.name, name)
        work.step(message("Copying the snapshot"), 20)
        work.node.copy_disk(build_volume_disk(snapshot), build_volume_disk(volume, name))
        work.node.grow_disk(build_volume_disk(volume, name))
        volume.disk_name, volume.ever_attached = name, True
    snapshot.status, snapshot.error = "available", None
    if old_name != name:
        work.update(rollback_steps=[["delete_disk", volume.storage.name, old_name]])
        work.step(message("Removing what was there"), 90)
        work.node.delete_disk(volume.storage.name, old_name)
