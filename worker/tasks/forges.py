"""Tasks of live-snapshot sessions.

The changes are in overlays that the node finds by their names, so any start or definition of the machine between two
steps, or after a lost worker, uses them.
"""

from panel.core import clock
from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.models import Forge
from panel.services import forges
from panel.services.docker_deployments import state_reports as docker_deployments
from worker.engine.registry import task_handler
from worker.tasks.instances import get_instance, record_power_after_call
from worker.tasks.machine_spec import build_disk, build_spec

DISCARD_POINT_OF_NO_RETURN_PERCENT = 80
"""Progress of a discard from which on the overlays are gone."""


def on_enable_failed(row, error):
    record_failure(row, "failed", error)


def on_commit_failed(row, error):
    """Record the failure. No data is lost: the commit can be repeated."""
    record_failure(row, "active", error)


def on_discard_failed(row, error):
    record_failure(row, "discarded" if row.progress >= DISCARD_POINT_OF_NO_RETURN_PERCENT else "active", error)


def record_failure(row, status, error):
    forge = session.get(Forge, row.arguments["forge_id"], populate_existing=True)
    if forge is not None:
        forges.record_outcome(forge, status, error)


@task_handler("forge_enable", on_failure=on_enable_failed)
def enable(work):
    instance, forge, disks = get_session(work)
    for disk in disks:
        work.undo("commit_overlay", instance.id, disk.pool, disk.name)
    work.step(message("Creating overlays for the disks"), 20)
    work.node.create_overlays(instance.id, disks)
    forges.record_outcome(forge, "active")


@task_handler("forge_commit", on_failure=on_commit_failed)
def commit(work):
    instance, forge, disks = get_session(work)
    forge.merging = True
    for number, disk in enumerate(disks):
        work.step(message("Writing the changes into {disk}", disk=disk.name), 10 + 80 * number // len(disks))
        work.node.commit_overlay(instance.id, disk.pool, disk.name, work.report_progress)
    forges.record_outcome(forge, "committed")


@task_handler("forge_discard", on_failure=on_discard_failed)
def discard(work):
    """Power off, delete the overlays and start again. Each step may run twice."""
    instance, forge, disks = get_session(work)
    work.step(message("Powering off"), 10)
    queried_at = clock.now()
    work.node.power_off(instance.id)
    record_power_after_call(work, "off", queried_at)
    work.step(message("Discarding the changes"), 40)
    for disk in disks:
        work.node.discard_overlay(instance.id, disk.pool, disk.name)
    work.step(message("Starting"), DISCARD_POINT_OF_NO_RETURN_PERCENT)
    instance = get_instance(work)
    if not instance.suspended_reason:
        work.node.define(build_spec(instance))
        queried_at = clock.now()
        work.node.start(instance.id)
        record_power_after_call(work, "on", queried_at)
    forges.record_outcome(forge, "discarded")
    docker_deployments.invalidate(instance)


def get_session(work):
    """Return the instance, its session, and those disks of the session that still exist."""
    instance = get_instance(work)
    forge = session.get(Forge, work.task.arguments["forge_id"], populate_existing=True)
    if forge is None:
        raise NotFound(message("The session was deleted in the meantime."))
    return instance, forge, [build_disk(disk) for disk in instance.disks if disk.id in forge.disk_ids]
