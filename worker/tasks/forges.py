"""What the tasks of live-snapshot sessions do. The changes lie in overlays that the node itself knows of, so whoever
starts or defines the machine between two steps, or after a worker died, keeps them."""

from panel.core import clock
from panel.core.db import session
from panel.core.errors import NotFound
from panel.models import Forge
from panel.services import forges
from panel.services.docker_deployments import state_reports as docker_deployments
from worker.engine.registry import task
from worker.tasks.instances import known, turned
from worker.tasks.machine_spec import disk_of, machine

POINT_OF_NO_RETURN = 80
"""Percent of a discard after which the overlays are gone."""


def failed(row, error):
    settle(row, "failed", error)


def stays_active(row, error):
    """Nothing is lost: it can be tried again."""
    settle(row, "active", error)


def stays_active_or_is_discarded(row, error):
    settle(row, "discarded" if row.progress >= POINT_OF_NO_RETURN else "active", error)


def settle(row, status, error):
    forge = session.get(Forge, row.arguments["forge_id"], populate_existing=True)
    if forge is not None:
        forges.settled(forge, status, error)


@task("forge_enable", ended_badly=failed)
def enable(work):
    instance, forge, disks = covered(work)
    for disk in disks:
        work.undo("merge_overlay", instance.id, disk.pool, disk.name)
    work.step("Laying overlays over the disks", 20)
    work.node.lay_overlays(instance.id, disks)
    forges.settled(forge, "active")


@task("forge_commit", ended_badly=stays_active)
def commit(work):
    instance, forge, disks = covered(work)
    forge.merging = True
    for number, disk in enumerate(disks):
        work.step(f"Writing the changes into {disk.name}", 10 + 80 * number // len(disks))
        work.node.merge_overlay(instance.id, disk.pool, disk.name, work.moved)
    forges.settled(forge, "committed")


@task("forge_discard", ended_badly=stays_active_or_is_discarded)
def discard(work):
    """Each step may be taken again: what is off, dropped or on already stays so."""
    instance, forge, disks = covered(work)
    work.step("Powering off", 10)
    asked = clock.now()
    work.node.power_off(instance.id)
    turned(work, "off", asked)
    work.step("Dropping the changes", 40)
    for disk in disks:
        work.node.drop_overlay(instance.id, disk.pool, disk.name)
    work.step("Starting", POINT_OF_NO_RETURN)
    instance = known(work)
    if not instance.suspended_reason:
        work.node.define(machine(instance))
        asked = clock.now()
        work.node.start(instance.id)
        turned(work, "on", asked)
    forges.settled(forge, "discarded")
    docker_deployments.look_anew(instance)


def covered(work):
    """The instance, the session, and its disks that are still there."""
    instance = known(work)
    forge = session.get(Forge, work.task.arguments["forge_id"], populate_existing=True)
    if forge is None:
        raise NotFound("The session was forgotten meanwhile.")
    return instance, forge, [disk_of(disk) for disk in instance.disks if disk.id in forge.disk_ids]
