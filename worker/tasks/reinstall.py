"""Reinstalling an instance (API reference: reinstall).

The new system gets its own disk and seed. Until both are complete the old system is not changed, and a failure restores
it with its power state. Then the row switches over to the new system, and the rollback steps become the deletion of the
old disk and seed. An attempt after a lost worker continues behind that point.
"""

from contextlib import suppress

from sqlalchemy import delete

from panel.core import clock
from panel.core.db import session
from panel.core.messages import message
from panel.models import GuestInfo
from panel.services.docker_deployments import state_reports as docker_deployments
from panel.services.instances import state_reports
from worker.engine.registry import task_handler
from worker.engine.runner import roll_back
from worker.nodes import base
from worker.nodes.base import GiB, NotOnNode, Power
from worker.tasks import cloud_init, user_scripts
from worker.tasks.instances import ensure_image, get_image, get_instance, record_power_after_call
from worker.tasks.machine_spec import build_disk, build_node_image, build_spec, get_seed_name, make_seed_name

REMOVING_OLD_SYSTEM_PROGRESS = 95
"""Progress at which the new system runs and only the old disk is left to delete."""


def make_new_disk_name(instance, row):
    """Return the new disk's name, which is the same for each attempt of the task and unique to the task."""
    return f"{instance.name}-0-{row.id[-12:]}.qcow2"


def is_switched_over(instance, row):
    return instance.disks[0].name == make_new_disk_name(instance, row)


def on_reinstall_failed(row, error):
    """Record the failure in the instance, but only after the switch-over and before the new system runs."""
    for instance in state_reports.lock_instances(row.resource_id):
        if is_switched_over(instance, row) and row.progress < REMOVING_OLD_SYSTEM_PROGRESS:
            state_reports.record_failure(instance, error)


@task_handler("instance_reinstall", on_failure=on_reinstall_failed)
def reinstall(work):
    if work.task.progress >= REMOVING_OLD_SYSTEM_PROGRESS:
        return  # a new attempt runs the rollback steps first, which deleted the old disk
    instance = get_instance(work)
    if not is_switched_over(instance, work.task):
        prepare_new_system(work, instance)
        switch_over(work)
        instance = get_instance(work)
    work.step(message("Defining the machine"), 85)
    work.node.define(build_spec(instance))
    work.step(message("Starting"), 90)
    queried_at = clock.now()
    work.node.start(instance.id)
    record_power_after_call(work, "on", queried_at)
    state_reports.on_deployed(get_instance(work), actor=work.task.actor)
    work.step(message("Removing the old system"), REMOVING_OLD_SYSTEM_PROGRESS)
    roll_back(work)


def prepare_new_system(work, instance):
    """Create the new system's disk and seed, then power off the old system."""
    work.step(message("Preparing"), 2)
    image, scripts = get_image(work), user_scripts.get_scripts(work)
    first_disk = instance.disks[0]
    disk = base.Disk(first_disk.storage.name, make_new_disk_name(instance, work.task), first_disk.size * GiB)
    ensure_image(work, image, first_disk.storage)

    work.step(message("Creating the new disk"), 50)
    work.undo("delete_disk", disk.pool, disk.name)
    work.node.create_disk(disk, build_node_image(image))

    work.step(message("Writing the first-boot configuration"), 70)
    seed = cloud_init.build_seed(instance, work.task.arguments, work.task.secret, work.task.id, scripts, image)
    work.undo("delete_disk", disk.pool, make_seed_name(disk.name))
    work.node.create_seed(disk.pool, make_seed_name(disk.name), seed)

    work.step(message("Stopping the old system"), 80)
    with suppress(NotOnNode):  # a machine that is missing on the node can be reinstalled, too
        if work.node.power(instance.id) is not Power.off:
            work.undo("start", instance.id)
            work.node.power_off(instance.id)
    work.check()


def switch_over(work):
    """Make the row describe the new system, and make the deletion of the old one the rollback steps.

    Both in one transaction, so that a lost worker leaves either the old or the new state.
    """
    [instance] = state_reports.lock_instances(work.task.resource_id)
    old_disk, old_seed, arguments = build_disk(instance.disks[0]), get_seed_name(instance), work.task.arguments
    instance.disks[0].name = make_new_disk_name(instance, work.task)
    instance.image_id, instance.hostname, instance.timezone = (
        arguments["image_id"],
        arguments["hostname"],
        arguments["timezone"],
    )
    instance.ssh_host_key = instance.presented_host_key = None
    session.execute(delete(GuestInfo).where(GuestInfo.instance_id == instance.id))
    docker_deployments.forget(instance)
    work.update(
        rollback_steps=[["delete_disk", old_disk.pool, old_seed], ["delete_disk", old_disk.pool, old_disk.name]]
    )
    session.commit()
