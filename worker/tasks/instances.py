"""What the tasks of an instance do on its node."""

import time
from contextlib import suppress

from sqlalchemy import select

from panel.core import clock
from panel.core.db import reading, session
from panel.core.errors import Conflict, NotFound
from panel.models import Image, ImageCopy, Instance
from panel.services import instances, usage
from panel.services.instances import state_reports
from worker.engine.registry import Together, task
from worker.engine.runner import WAIT
from worker.nodes import base
from worker.nodes.base import Missing, NodeError, Power, Refused
from worker.tasks import cloud_init, firewall, user_scripts
from worker.tasks.machine_spec import disk_of, machine, on_node, plain_machine, seed_name
from worker.tasks.spec_rescue import leave, named

SHUTDOWN_PATIENCE = 120
"""Seconds that a guest may take to turn itself off."""
REMINDED_AFTER = 15
"""Seconds until it is asked again: a guest that was still starting did not hear it."""


def failed(row, error):
    for instance in state_reports.fresh(row.resource_id):
        state_reports.failed(instance, error)


@task("instance_deploy", ended_badly=failed)
def deploy(work):
    """Makes the machine: image on the node, disk from it, seed, definition, power."""
    instance = known(work)
    work.step("Preparing", 2)
    image, scripts = image_of(work), user_scripts.of(work)
    disk = disk_of(instance.disks[0])
    ensure_image(work, image, instance.disks[0].on)

    work.step("Creating the disk", 50)
    work.undo("delete_disk", disk.pool, disk.name)
    work.node.create_disk(disk, on_node(image))

    work.step("Writing the first-boot configuration", 70)
    seed = cloud_init.seed(instance, work.task.arguments, work.task.secret, work.task.id, scripts, image)
    work.undo("delete_disk", disk.pool, seed_name(instance))
    medium = work.node.write_seed(disk.pool, seed_name(instance), seed)

    work.step("Defining the machine", 80)
    work.undo("delete", instance.id)
    work.node.define(machine(instance, medium))

    work.step("Starting", 90)
    asked = clock.now()
    work.node.start(instance.id)
    turned(work, "on", asked)
    state_reports.deployed(instance, actor=work.task.actor)


def image_of(work):
    image = session.get(Image, work.task.arguments["image_id"])
    if image is None:
        raise NotFound("The image was removed meanwhile. Choose another one.")
    return image


def ensure_image(work, image, storage):
    """The first machine of an image on a node waits for its copy; the others find it there."""
    wanted = storage.name, on_node(image)
    if not work.node.has_image(*wanted):
        work.step_alone(f"Copying the image {image.label:.100}", 10)
        work.node.put_image(*wanted, work.moved)
        session.merge(ImageCopy(image_id=image.id, storage_id=storage.id))


def turned(work, power, asked):
    """Record the power that a call to the node brought about; `asked` is the time just before the call."""
    all_turned(power, {work: asked})


def all_turned(power, asked):
    """Record the power that finished calls brought about; `asked` maps each work to the time just before its call.

    A report that began before its call finished may describe the machine as it was before, so the finished call is
    newer. If such a report contradicts the call, the guest may also have changed by itself: the node is asked again.
    """
    works, finished_at = {work.task.resource_id: work for work in asked}, clock.now()
    contradicted = []
    for instance in state_reports.fresh(*works):
        work = works[instance.id]
        reported = instance.power_at and asked[work] <= instance.power_at <= finished_at
        if reported and instance.power != power:
            contradicted.append(work)
        else:
            record_power(work, instance, Power(power), finished_at)
    for work in contradicted:
        with suppress(NodeError):  # the periodic comparison with the node comes soon
            observe_power(work)


def observe_power(work):
    """Ask the node for the machine's power, record it and return it."""
    asked_at, power = clock.now(), work.node.power(work.task.resource_id)
    for instance in state_reports.fresh(work.task.resource_id):
        record_power(work, instance, power, asked_at)
    return power


def record_power(work, instance, power, at):
    """Write the power into a row that is locked. A paused machine counts as on."""
    state_reports.power(instance, "off" if power is Power.off else "on", at=at, actor=work.task.actor)
    if power is Power.on:
        instance.last_error, instance.frozen = None, False


POWER = ("instance_start", "instance_stop", "instance_shutdown", "instance_poweroff", "instance_restart")
SUSPENSION = ("instance_suspend", "instance_unsuspend")


def start_together(works, until):
    """Starts those that are plain: what their rows say is all there is to know about them."""
    reading()
    plain = instances.plain_among([work.task.resource_id for work in works])
    asked = {}
    with suppress(NodeError):
        for work in works:
            instance = plain.get(work.task.resource_id)
            if instance and not instance.frozen and time.monotonic() < until:
                work.node.define(plain_machine(instance, firewall.cards_with(None, instance)))
                begun = clock.now()
                work.node.start(instance.id)
                asked[work] = begun
    all_turned("on", asked)
    return list(asked)


@task(
    "instance_start",
    after=("instance_stop", "instance_shutdown", "instance_poweroff", "iso_mount", "image_capture", *SUSPENSION),
    together=Together("Starting", start_together),
)
def start(work):
    work.step("Starting", 20)
    reading()
    instance = known(work)
    if instance.suspended_reason:
        raise Conflict("The instance was suspended meanwhile.")
    if instance.frozen:
        return go_on(work)
    start_as_it_is(work, instance)


def turn_on(work, instance):
    work.step("Starting", 20)
    start_as_it_is(work, instance)


def go_on(work):
    """Wakes a guest that its hypervisor had paused. It stops again at once when there is no room yet."""
    asked = clock.now()
    work.node.resume(work.task.resource_id)
    turned(work, "on", asked)


def start_as_it_is(work, instance):
    work.node.define(machine(instance))
    asked = clock.now()
    work.node.start(instance.id)
    turned(work, "on", asked)


@task("instance_poweroff")
def poweroff(work):
    power_off(work, "Powering off", 20)


def power_off(work, stage, progress):
    work.step(stage, progress)
    asked = clock.now()
    work.node.power_off(work.task.resource_id)
    turned(work, "off", asked)


@task("instance_shutdown")
def shutdown(work):
    """Asks the guest, and says so when it ignores that."""
    if not ask_to_stop(work):
        if work.node.power(work.task.resource_id) is Power.paused:
            raise NodeError("The hypervisor has paused the guest, so it cannot turn itself off. Power it off instead.")
        raise NodeError(f"The guest did not turn itself off within {SHUTDOWN_PATIENCE} s. Power it off instead.")


@task("instance_stop")
def stop(work):
    """Asks the guest, and pulls the plug when it does not obey."""
    if not ask_to_stop(work):
        power_off(work, "The guest does not obey: powering off", 90)


def ask_to_stop(work):
    """Says whether the guest turned itself off. That is written in its row when the node tells of it; now and then the
    node is asked, too, because events can be lost. One that the hypervisor has paused cannot."""
    work.step("Asking the guest to shut down", 20)
    asked = clock.now()
    try:
        work.node.shutdown(work.task.resource_id)
    except Refused:
        if work.node.power(work.task.resource_id) is Power.paused:
            return False
        raise
    work.step("Waiting for the guest", 50)
    begun = look_at = time.monotonic()
    remind_at = begun + REMINDED_AFTER
    while (waited := time.monotonic() - begun) < SHUTDOWN_PATIENCE:
        if seen_off(work, asked):
            return True
        if time.monotonic() >= look_at:
            look_at += max(1, waited)
            if observe_power(work) is Power.off:
                return True
        if time.monotonic() >= remind_at:
            remind_at += REMINDED_AFTER
            with suppress(NodeError):
                work.node.shutdown(work.task.resource_id)
        work.check()
        time.sleep(WAIT)
    return False


def seen_off(work, since):
    off = select(Instance.id).where(Instance.id == work.task.resource_id, Instance.power == "off")
    return session.scalar(off.where(Instance.power_at >= since)) is not None


@task("instance_suspend", after=(*POWER, *SUSPENSION))
def suspend(work):
    """Whatever was asked for meanwhile, the row says how it is to be: a suspended machine is off."""
    instance = known(work)
    if instance.suspended_reason and instance.deployed and not ask_to_stop(work):
        power_off(work, "The guest does not obey: powering off", 90)
    if instance.suspended_reason:
        leave(work, instance)


@task("instance_unsuspend", after=(*POWER, "image_capture", *SUSPENSION))
def unsuspend(work):
    """Gives back the power that the machine had when it was suspended."""
    instance = known(work)
    if not instance.suspended_reason and instance.deployed and work.task.arguments["power"] == "on":
        turn_on(work, instance)


@task("instance_restart", after=("instance_start", "instance_stop", "instance_shutdown", "instance_poweroff"))
def restart(work):
    """Asks the guest to restart. That cannot be done again without being noticed, so a cut-off attempt is not."""
    instance = known(work)
    if instance.pending_ram is not None or instance.topology_pending:
        return start_anew(work)
    if work.task.progress:
        raise NodeError("The worker was lost meanwhile, so it is not known whether the guest restarted.")
    work.step("Restarting", 30)
    work.node.restart(work.task.resource_id)


def start_anew(work):
    """A restart that brings what waits for it: only a machine that is powered on anew has other processors."""
    if not ask_to_stop(work):
        power_off(work, "The guest does not obey: powering off", 80)
    turn_on(work, known(work))


def still_there(row, error):
    """It was not destroyed, so it costs what it did."""
    usage.resume(row.resource_id)


@task("instance_destroy", ended_badly=still_there)
def destroy(work):
    """Removes the machine and its disks from the node, then its row. A node without the machine is as good."""
    instance = instances.by_id(work.task.resource_id)
    if instance is None:
        return
    disks = [(disk.on.name, disk.name) for disk in instance.disks]
    overlays = [(pool, base.overlay_of(name)) for pool, name in disks] if instance.forges else []
    work.step("Removing the machine", 20)
    work.node.delete(instance.id)
    work.step("Removing its disks", 60)
    for pool, name in (*overlays, *disks, (disks[0][0], seed_name(instance)), *named(instance)):
        with suppress(Missing):  # a node that was installed anew does not even have the pool
            work.node.delete_disk(pool, name)
    work.step("Releasing its addresses", 90)
    state_reports.destroyed(instance, actor=work.task.actor)


def known(work):
    instance = instances.by_id(work.task.resource_id)
    if instance is None:
        raise NotFound("The instance was destroyed meanwhile.")
    return instance
