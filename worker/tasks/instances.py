"""Tasks of instances: deploy, start, stop, suspend, destroy."""

import time
from contextlib import suppress

from sqlalchemy import select

from panel.core import clock
from panel.core.db import begin_read_only, session
from panel.core.errors import Conflict, NotFound
from panel.core.messages import message
from panel.models import Image, ImageCopy, Instance
from panel.services import instances, usage
from panel.services.instances import state_reports
from worker.engine.registry import BatchHandler, task_handler
from worker.engine.runner import TASK_WAIT_INTERVAL_SECONDS
from worker.nodes import base
from worker.nodes.base import NodeError, NotOnNode, Power, Refused
from worker.tasks import cloud_init, firewall, user_scripts
from worker.tasks.machine_spec import build_base_spec, build_disk, build_node_image, build_spec, get_seed_name
from worker.tasks.spec_rescue import disable_rescue, list_rescue_disk_names

SHUTDOWN_TIMEOUT_SECONDS = 120
"""Seconds that a guest may take to turn itself off."""
SHUTDOWN_REMINDER_SECONDS = 15
"""Seconds after which the guest is asked again, because a guest that still boots ignores the first request."""


def on_deploy_failed(row, error):
    for instance in state_reports.lock_instances(row.resource_id):
        state_reports.record_failure(instance, error)


@task_handler("instance_deploy", on_failure=on_deploy_failed)
def deploy(work):
    """Create the machine: copy the image, create disk and seed, define and start it."""
    instance = get_instance(work)
    work.step(message("Preparing"), 2)
    image, scripts = get_image(work), user_scripts.get_scripts(work)
    disk = build_disk(instance.disks[0])
    ensure_image(work, image, instance.disks[0].storage)

    work.step(message("Creating the disk"), 50)
    work.undo("delete_disk", disk.pool, disk.name)
    work.node.create_disk(disk, build_node_image(image))

    create_unused_volumes(work, instance)
    work.step(message("Writing the first-boot configuration"), 70)
    seed = cloud_init.build_seed(instance, work.task.arguments, work.task.secret, work.task.id, scripts, image)
    work.undo("delete_disk", disk.pool, get_seed_name(instance))
    seed_disk = work.node.create_seed(disk.pool, get_seed_name(instance), seed)

    work.step(message("Defining the machine"), 80)
    work.undo("delete", instance.id)
    work.node.define(build_spec(instance, seed_disk))

    work.step(message("Starting"), 90)
    queried_at = clock.now()
    work.node.start(instance.id)
    record_power_after_call(work, "on", queried_at)
    state_reports.on_deployed(instance, actor=work.task.actor)


def create_unused_volumes(work, instance):
    """Create the disks of volumes that were attached before the first start and never used."""
    for volume in list(instance.volumes):
        if not volume.ever_attached:
            work.node.create_disk(build_disk(volume))
            volume.ever_attached = True
            session.commit()


def get_image(work):
    image = session.get(Image, work.task.arguments["image_id"])
    if image is None:
        raise NotFound(message("The image was deleted in the meantime. Choose another one."))
    return image


def ensure_image(work, image, storage):
    """Copy the image to the storage unless it is there. Tasks that need the same copy wait for it."""
    image_args = storage.name, build_node_image(image)
    if not work.node.has_image(*image_args):
        work.step_exclusive(message("Copying the image {image:.100}", image=image.label), 10)
        work.node.put_image(*image_args, work.report_progress)
        session.merge(ImageCopy(image_id=image.id, storage_id=storage.id))
        session.commit()


def record_power_after_call(work, power, queried_at):
    """Record the power that a call to the node brought about. `queried_at` is the time just before the call."""
    record_power_after_calls(power, {work: queried_at})


def record_power_after_calls(power, queried_at):
    """Record the power that finished calls brought about.

    `queried_at` maps each task context to the time just before its call. A report that began before its call finished
    may describe the machine as it was before, so the finished call is newer. If such a report contradicts the call, the
    guest may also have changed by itself: the node is asked again.
    """
    works, finished_at = {work.task.resource_id: work for work in queried_at}, clock.now()
    contradicted = []
    for instance in state_reports.lock_instances(*works):
        work = works[instance.id]
        reported = instance.power_reported_at and instance.power_reported_at >= queried_at[work]
        if reported and instance.power != power:
            contradicted.append(work)
        else:
            record_power(work, instance, Power(power), finished_at)
    if contradicted:
        session.commit()
    for work in contradicted:
        with suppress(NodeError):  # the next reconciliation comes soon
            observe_power(work)


def observe_power(work):
    """Ask the node for the machine's power, record it, commit and return it."""
    queried_at, power = clock.now(), work.node.power(work.task.resource_id)
    for instance in state_reports.lock_instances(work.task.resource_id):
        record_power(work, instance, power, queried_at)
    session.commit()
    return power


def record_power(work, instance, power, at):
    """Write the power into a locked row. A paused machine counts as on."""
    state_reports.report_power(instance, "off" if power is Power.off else "on", at=at, actor=work.task.actor)
    if power is Power.on:
        instance.last_error, instance.paused = None, False


POWER_TASKS = ("instance_start", "instance_stop", "instance_shutdown", "instance_poweroff", "instance_restart")
SUSPENSION_TASKS = ("instance_suspend", "instance_unsuspend")
READING_TASKS = ("image_capture", "backup_create", "volume_backup")
"""Tasks that read disks, during which the machine is not started."""


def start_batch(works, until):
    """Start the instances that need nothing but their own rows, and return their task contexts."""
    begin_read_only()
    simple = instances.get_simple_instances([work.task.resource_id for work in works])
    queried_at = {}
    with suppress(NodeError):
        for work in works:
            instance = simple.get(work.task.resource_id)
            if instance and not instance.paused and time.monotonic() < until:
                work.node.define(build_base_spec(instance, firewall.build_nics_with(None, instance)))
                called_at = clock.now()
                work.node.start(instance.id)
                queried_at[work] = called_at
    record_power_after_calls("on", queried_at)
    return list(queried_at)


@task_handler(
    "instance_start",
    conflicts_with=(
        "instance_stop",
        "instance_shutdown",
        "instance_poweroff",
        "iso_mount",
        *READING_TASKS,
        *SUSPENSION_TASKS,
    ),
    batch=BatchHandler(message("Starting"), start_batch),
)
def start(work):
    work.step(message("Starting"), 20)
    begin_read_only()
    instance = get_instance(work)
    if instance.suspended_reason:
        raise Conflict(message("The instance was suspended in the meantime."))
    if instance.paused:
        return resume_paused(work)
    define_and_start(work, instance)


def power_on(work, instance):
    work.step(message("Starting"), 20)
    define_and_start(work, instance)


def resume_paused(work):
    """Resume a guest that its hypervisor has paused. It is paused again at once if the cause persists."""
    queried_at = clock.now()
    work.node.resume(work.task.resource_id)
    record_power_after_call(work, "on", queried_at)


def define_and_start(work, instance):
    work.node.define(build_spec(instance))
    queried_at = clock.now()
    work.node.start(instance.id)
    record_power_after_call(work, "on", queried_at)


@task_handler("instance_poweroff")
def poweroff(work):
    power_off(work, message("Powering off"), 20)


def power_off(work, stage, progress):
    work.step(stage, progress)
    queried_at = clock.now()
    work.node.power_off(work.task.resource_id)
    record_power_after_call(work, "off", queried_at)
    session.commit()


@task_handler("instance_shutdown")
def shutdown(work):
    """Ask the guest to shut down. Raise NodeError when it does not."""
    if not request_shutdown(work):
        if work.node.power(work.task.resource_id) is Power.paused:
            raise NodeError(message("The hypervisor paused the guest, so it cannot shut down. Power it off instead."))
        raise NodeError(
            message(
                "The guest did not shut down within {seconds} s. Power it off instead.",
                seconds=SHUTDOWN_TIMEOUT_SECONDS,
            )
        )


@task_handler("instance_stop")
def stop(work):
    """Ask the guest to shut down, and power it off when it does not."""
    if not request_shutdown(work):
        power_off(work, message("The guest did not respond: powering off"), 90)


def request_shutdown(work):
    """Ask the guest to shut down and return whether it did within the timeout.

    Reports of the node set the row's power. The node is also polled now and then, because events can be lost. Only the
    row counts: a poll that overlaps with another report is not recorded. A guest that the hypervisor has paused cannot
    shut down.
    """
    work.step(message("Asking the guest to shut down"), 20)
    queried_at = clock.now()
    try:
        work.node.shutdown(work.task.resource_id)
    except Refused:
        if work.node.power(work.task.resource_id) is Power.paused:
            return False
        raise
    work.step(message("Waiting for the guest"), 50)
    started_at = poll_at = time.monotonic()
    remind_at = started_at + SHUTDOWN_REMINDER_SECONDS
    while (elapsed := time.monotonic() - started_at) < SHUTDOWN_TIMEOUT_SECONDS:
        if time.monotonic() >= poll_at:
            poll_at += max(1, elapsed)
            observe_power(work)
        if was_reported_off(work, queried_at):
            return True
        if time.monotonic() >= remind_at:
            remind_at += SHUTDOWN_REMINDER_SECONDS
            with suppress(NodeError):
                work.node.shutdown(work.task.resource_id)
        work.check()
        time.sleep(TASK_WAIT_INTERVAL_SECONDS)
    return False


def was_reported_off(work, since):
    query = select(Instance.id).where(Instance.id == work.task.resource_id, Instance.power == "off")
    return session.scalar(query.where(Instance.power_reported_at >= since)) is not None


@task_handler("instance_suspend", conflicts_with=(*POWER_TASKS, *SUSPENSION_TASKS))
def suspend(work):
    """Turn the machine off if its row is still suspended. The row may have changed after the request."""
    instance = get_instance(work)
    if instance.suspended_reason and instance.deployed and not request_shutdown(work):
        power_off(work, message("The guest did not respond: powering off"), 90)
    if instance.suspended_reason:
        disable_rescue(work, instance)


@task_handler("instance_unsuspend", conflicts_with=(*POWER_TASKS, *READING_TASKS, *SUSPENSION_TASKS))
def unsuspend(work):
    """Start the machine again if it was on when it was suspended."""
    instance = get_instance(work)
    if not instance.suspended_reason and instance.deployed and work.task.arguments["power"] == "on":
        power_on(work, instance)


@task_handler(
    "instance_restart", conflicts_with=("instance_start", "instance_stop", "instance_shutdown", "instance_poweroff")
)
def restart(work):
    """Ask the guest to restart. An interrupted attempt is not repeated, because the guest could restart twice."""
    instance = get_instance(work)
    if instance.pending_ram is not None or instance.topology_pending:
        return cold_restart(work)
    if work.task.progress:
        raise NodeError(message("The worker was lost meanwhile, so it is not known whether the guest restarted."))
    work.step(message("Restarting"), 30)
    work.node.restart(work.task.resource_id)


def cold_restart(work):
    """Stop and start the machine, because pending memory and CPU topology need a new start."""
    if not request_shutdown(work):
        power_off(work, message("The guest did not respond: powering off"), 80)
    power_on(work, get_instance(work))


def on_destroy_failed(row, error):
    """Resume metering, because the instance still exists."""
    usage.resume_metering(row.resource_id)


@task_handler("instance_destroy", on_failure=on_destroy_failed)
def destroy(work):
    """Delete the machine and its disks from the node, then its row. What is missing on the node counts as deleted."""
    instance = instances.find_by_id(work.task.resource_id)
    if instance is None:
        return
    disks = [(disk.storage.name, disk.name) for disk in instance.disks]
    overlays = [(pool, base.make_overlay_name(name)) for pool, name in disks] if instance.forges else []
    work.step(message("Removing the machine"), 20)
    work.node.delete(instance.id)
    work.step(message("Removing its disks"), 60)
    for pool, name in (*overlays, *disks, (disks[0][0], get_seed_name(instance)), *list_rescue_disk_names(instance)):
        with suppress(NotOnNode):  # the node may have been reinstalled and not even have the pool
            work.node.delete_disk(pool, name)
    work.step(message("Releasing its addresses"), 90)
    delete_backups = work.task.arguments.get("delete_backups", False)
    state_reports.on_destroyed(instance, actor=work.task.actor, delete_backups=delete_backups)


def get_instance(work):
    instance = instances.find_by_id(work.task.resource_id)
    if instance is None:
        raise NotFound(message("The instance was destroyed in the meantime."))
    return instance
