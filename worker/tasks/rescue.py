"""Taking machines into rescue and out of it."""

from dataclasses import replace

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Conflict, NotFound
from panel.models import Image
from panel.services.instances import rescue
from worker.engine.registry import task
from worker.nodes.base import GiB, Power
from worker.tasks import cloud_init
from worker.tasks.instances import ask_to_stop, ensure_image, known, power_off, turn_on, turned
from worker.tasks.machine_spec import machine, on_node
from worker.tasks.spec_rescue import active, in_rescue, leave, things


@task("instance_rescue_enable")
def enable(work):
    """Makes the disk and the seed of the rescue system and boots it. The seed has the instance's own network, and
    nobody's keys: who is shown the password may sign in."""
    instance = known(work)
    image = session.get(Image, work.task.arguments["image_id"])
    if image is None:
        raise NotFound("The rescue system was removed meanwhile.")
    if instance.suspended_reason:
        raise Conflict("The instance was suspended meanwhile.")
    if active(instance):
        return
    disk, seed = things(instance)
    plain = machine(instance)
    work.step("Preparing the rescue system", 5)
    ensure_image(work, image, instance.disks[0].on)
    if work.node.power(instance.id) is not Power.off:
        raise Conflict(rescue.NOT_STOPPED)
    work.step("Creating its disk", 40)
    work.undo("delete_disk", disk.pool, disk.name)
    work.node.create_disk(replace(disk, size=max(disk.size, image.min_disk * GiB)), on_node(image))
    work.undo("delete_disk", seed.pool, seed.name)
    words = {"hostname": "rescue", "ssh_keys": [], "timezone": None, "cloudcfg": None}
    work.node.write_seed(seed.pool, seed.name, cloud_init.seed(instance, words, work.task.secret, work.task.id))
    work.step("Starting the rescue system", 70)
    work.undo("power_off", instance.id)
    work.node.define(in_rescue(instance, plain))
    asked = clock.now()
    work.node.start(instance.id)
    turned(work, "on", asked)
    rescue.entered(instance, work.task.secret, asked)


@task("instance_rescue_disable")
def disable(work):
    """Turns the rescue system off, takes away what it had, and starts the instance's own if it was on."""
    instance = known(work)
    if active(instance):
        if work.node.power(instance.id) is not Power.off and not ask_to_stop(work):
            power_off(work, "The rescue system does not obey: powering off", 60)
        work.step("Removing the rescue system", 70)
        leave(work, instance)
        work.node.define(machine(instance))
    if work.task.arguments["on"] and not known(work).suspended_reason:
        turn_on(work, known(work))
