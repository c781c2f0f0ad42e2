"""Tasks that start and end the rescue of a machine."""

from dataclasses import replace

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Conflict, NotFound
from panel.core.messages import message
from panel.models import Image
from panel.services.instances import rescue
from worker.engine.registry import task_handler
from worker.nodes.base import GiB, Power
from worker.tasks import cloud_init
from worker.tasks.instances import (
    ensure_image,
    get_instance,
    power_off,
    power_on,
    record_power_after_call,
    request_shutdown,
)
from worker.tasks.machine_spec import build_node_image, build_spec
from worker.tasks.spec_rescue import add_rescue_disk, build_rescue_disks, disable_rescue, is_in_rescue


@task_handler("instance_rescue_enable")
def enable(work):
    """Create the rescue system's disk and seed and boot it.

    The seed has the instance's network and no SSH keys: sign-in is with the password that the panel shows.
    """
    instance = get_instance(work)
    image = session.get(Image, work.task.arguments["image_id"])
    if image is None:
        raise NotFound(message("The rescue system was deleted in the meantime."))
    if instance.suspended_reason:
        raise Conflict(message("The instance was suspended in the meantime."))
    if is_in_rescue(instance):
        return
    disk, seed = build_rescue_disks(instance)
    spec = build_spec(instance)
    work.step(message("Preparing the rescue system"), 5)
    ensure_image(work, image, instance.disks[0].storage)
    if work.node.power(instance.id) is not Power.off:
        raise Conflict(rescue.NOT_STOPPED_MESSAGE)
    work.step(message("Creating its disk"), 40)
    work.undo("delete_disk", disk.pool, disk.name)
    work.node.create_disk(replace(disk, size=max(disk.size, image.min_disk * GiB)), build_node_image(image))
    work.undo("delete_disk", seed.pool, seed.name)
    arguments = {"hostname": "rescue", "ssh_keys": [], "timezone": None, "cloudcfg": None}
    work.node.create_seed(
        seed.pool, seed.name, cloud_init.build_seed(instance, arguments, work.task.secret, work.task.id)
    )
    work.step(message("Starting the rescue system"), 70)
    work.undo("power_off", instance.id)
    work.node.define(add_rescue_disk(instance, spec))
    queried_at = clock.now()
    work.node.start(instance.id)
    record_power_after_call(work, "on", queried_at)
    rescue.record_entered(instance, work.task.secret, queried_at)


@task_handler("instance_rescue_disable")
def disable(work):
    """Turn the rescue system off, delete its disk and seed, and start the instance's own system if it was on."""
    instance = get_instance(work)
    if is_in_rescue(instance):
        if work.node.power(instance.id) is not Power.off and not request_shutdown(work):
            power_off(work, message("The rescue system did not respond: powering off"), 60)
        work.step(message("Removing the rescue system"), 70)
        disable_rescue(work, instance)
        work.node.define(build_spec(instance))
    if work.task.arguments["on"] and not get_instance(work).suspended_reason:
        power_on(work, get_instance(work))
