"""Making a machine anew (API reference: reinstall).

The new system gets a disk and a seed of its own beside the old ones. Until they are complete nothing of the old system
is touched, and a failure gives it back with its power. Then the row changes over: from there on it tells of the new
system whatever happens, an attempt after a lost worker begins behind that point, and what there is to take back is the
old system's disk.
"""

from contextlib import suppress

from sqlalchemy import delete

from panel.core import clock
from panel.core.db import session
from panel.models import GuestInfo
from panel.services.docker_deployments import state_reports as docker_deployments
from panel.services.instances import state_reports
from worker.engine.registry import task_handler
from worker.engine.runner import roll_back
from worker.nodes import base
from worker.nodes.base import GiB, Missing, Power
from worker.tasks import cloud_init, user_scripts
from worker.tasks.instances import ensure_image, get_image, get_instance, record_power_after_call
from worker.tasks.machine_spec import build_disk, build_spec, node_image, seed_name, seed_name_for

REMOVING_OLD_SYSTEM_PROGRESS = 95
"""The progress of a task whose new system runs: only the old one's disk is left to remove."""


def new_disk_name(instance, row):
    """The same for each attempt of the task, and no other task's."""
    return f"{instance.name}-0-{row.id[-12:]}.qcow2"


def is_switched_over(instance, row):
    return instance.disks[0].name == new_disk_name(instance, row)


def on_reinstall_failed(row, error):
    """Before the row changed over, and when the new system runs, a failure is the task's alone."""
    for instance in state_reports.lock_instances(row.resource_id):
        if is_switched_over(instance, row) and row.progress < REMOVING_OLD_SYSTEM_PROGRESS:
            state_reports.record_failure(instance, error)


@task_handler("instance_reinstall", on_failure=on_reinstall_failed)
def reinstall(work):
    if work.task.progress >= REMOVING_OLD_SYSTEM_PROGRESS:
        return  # the old disk went with what a new attempt takes back first
    instance = get_instance(work)
    if not is_switched_over(instance, work.task):
        prepare_new_system(work, instance)
        switch_over(work)
        instance = get_instance(work)
    work.step("Defining the machine", 85)
    work.node.define(build_spec(instance))
    work.step("Starting", 90)
    asked = clock.now()
    work.node.start(instance.id)
    record_power_after_call(work, "on", asked)
    state_reports.on_deployed(get_instance(work), actor=work.task.actor)
    work.step("Removing the old system", REMOVING_OLD_SYSTEM_PROGRESS)
    roll_back(work)


def prepare_new_system(work, instance):
    """The new system's disk and seed, complete, beside the old ones; then the old machine is turned off."""
    work.step("Preparing", 2)
    image, scripts = get_image(work), user_scripts.get_scripts(work)
    first = instance.disks[0]
    disk = base.Disk(first.on.name, new_disk_name(instance, work.task), first.size * GiB)
    ensure_image(work, image, first.on)

    work.step("Creating the new disk", 50)
    work.undo("delete_disk", disk.pool, disk.name)
    work.node.create_disk(disk, node_image(image))

    work.step("Writing the first-boot configuration", 70)
    seed = cloud_init.build_seed(instance, work.task.arguments, work.task.secret, work.task.id, scripts, image)
    work.undo("delete_disk", disk.pool, seed_name_for(disk.name))
    work.node.create_seed(disk.pool, seed_name_for(disk.name), seed)

    work.step("Turning the old system off", 80)
    with suppress(Missing):  # a machine that the node lost is made anew all the same
        if work.node.power(instance.id) is not Power.off:
            work.undo("start", instance.id)
            work.node.power_off(instance.id)
    work.check()


def switch_over(work):
    """From here on the row tells of the new system. What is taken back now is the old one: in the same transaction, so
    that a lost worker leaves one or the other."""
    [instance] = state_reports.lock_instances(work.task.resource_id)
    old, old_seed, chosen = build_disk(instance.disks[0]), seed_name(instance), work.task.arguments
    instance.disks[0].name = new_disk_name(instance, work.task)
    instance.image_id, instance.hostname, instance.timezone = chosen["image_id"], chosen["hostname"], chosen["timezone"]
    instance.ssh_host_key = instance.shown_host_key = None
    session.execute(delete(GuestInfo).where(GuestInfo.instance_id == instance.id))
    docker_deployments.forget(instance)
    work.update(undo=[["delete_disk", old.pool, old_seed], ["delete_disk", old.pool, old.name]])
    session.commit()
