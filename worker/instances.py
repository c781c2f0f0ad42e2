"""What the tasks of an instance do on its node."""

import time
from pathlib import Path

from panel.db import session
from panel.models import Image, ImageCopy
from panel.services import instances
from panel.services.instances import seen
from worker import hypervisors, seeds
from worker.nodes import base
from worker.nodes.base import GiB, Machine, Nic, NodeError, Power
from worker.task import task

SHUTDOWN_PATIENCE = 120
"""Seconds that a guest may take to turn itself off."""


def failed(row, error):
    instance = instances.by_id(row.resource_id)
    if instance:
        seen.failed(instance, error)


@task("instance_deploy", ended_badly=failed)
def deploy(work):
    """Makes the machine: image on the node, disk from it, seed, definition, power."""
    instance = instances.by_id(work.task.resource_id)
    image = session.get(Image, work.task.arguments["image_id"])
    pool = instance.disks[0].on
    work.step("Preparing", 2)
    clear(work.node, instance)
    ensure_image(work, image, pool)

    work.step("Creating the disk", 50)
    disk = disk_of(instance.disks[0])
    work.undo("delete_disk", disk.pool, disk.name)
    work.node.create_disk(disk, on_node(image))

    work.step("Writing the first-boot configuration", 70)
    seed = seeds.seed(instance, work.task.arguments, work.task.secret, work.task.id)
    work.undo("delete_disk", disk.pool, seed_name(instance))
    medium = work.node.write_seed(disk.pool, seed_name(instance), seed)

    work.step("Defining the machine", 80)
    work.undo("delete", instance.id)
    work.node.define(machine(instance, medium))

    work.step("Starting", 90)
    work.node.start(instance.id)
    instance.image = image
    seen.power(instance, "on", actor=work.task.actor)
    seen.deployed(instance, actor=work.task.actor)


def clear(node, instance):
    """Removes what an attempt that was cut off may have left."""
    node.delete(instance.id)
    for disk in instance.disks:
        node.delete_disk(disk.on.name, disk.name)
    node.delete_disk(instance.disks[0].on.name, seed_name(instance))


def ensure_image(work, image, storage):
    """The first machine of an image on a node waits for its copy; the others find it there."""
    if session.get(ImageCopy, (image.id, storage.id)) and work.node.has_image(storage.name, on_node(image)):
        return
    work.step(f"Copying the image {image.label}", 10)
    work.node.put_image(storage.name, on_node(image), Moved(work))
    session.merge(ImageCopy(image_id=image.id, storage_id=storage.id))


class Moved:
    """Writes the bytes of a transfer down at most once a second."""

    def __init__(self, work):
        self.work, self.next = work, 0.0

    def __call__(self, done, total):
        if done == total or time.monotonic() >= self.next:
            self.next = time.monotonic() + 1
            self.work.moved(done, total)


@task("instance_start")
def start(work):
    instance = known(work)
    work.step("Starting", 20)
    work.node.define(machine(instance))
    work.node.start(instance.id)
    seen.power(instance, "on", actor=work.task.actor)


@task("instance_poweroff")
def poweroff(work):
    instance = known(work)
    work.step("Powering off", 20)
    work.node.power_off(instance.id)
    seen.power(instance, "off", actor=work.task.actor)


@task("instance_shutdown")
def shutdown(work):
    """Asks the guest, and says so when it ignores that."""
    instance = known(work)
    if not ask_to_stop(work, instance):
        raise NodeError(f"The guest did not turn itself off within {SHUTDOWN_PATIENCE} s. Power it off instead.")


@task("instance_stop")
def stop(work):
    """Asks the guest, and pulls the plug when it does not obey."""
    instance = known(work)
    if not ask_to_stop(work, instance):
        work.step("The guest does not obey: powering off", 90)
        work.node.power_off(instance.id)
        seen.power(instance, "off", actor=work.task.actor)


def ask_to_stop(work, instance):
    work.step("Asking the guest to shut down", 20)
    work.node.shutdown(instance.id)
    work.step("Waiting for the guest", 50)
    until = time.monotonic() + SHUTDOWN_PATIENCE
    while time.monotonic() < until:
        if power_of(work.node, instance) is Power.off:
            seen.power(instance, "off", actor=work.task.actor)
            return True
        work.update()
        session.commit()
        time.sleep(0.5)
    return False


def power_of(node, instance):
    return next((seen.power for seen in node.machines() if seen.id == instance.id), Power.off)


@task("instance_restart")
def restart(work):
    """Asks the guest to restart; a guest that cannot be asked is reset."""
    instance = known(work)
    work.step("Restarting", 30)
    try:
        work.node.restart(instance.id)
    except base.Refused:
        work.node.reset(instance.id)
    seen.power(instance, "on", actor=work.task.actor)


@task("instance_destroy")
def destroy(work):
    """Removes the machine and its disks from the node, then its row. A node without the machine is as good."""
    instance = instances.by_id(work.task.resource_id)
    if instance is None:
        return
    work.step("Removing the machine", 20)
    clear(work.node, instance)
    work.step("Releasing its addresses", 90)
    seen.destroyed(instance, actor=work.task.actor)


def known(work):
    instance = instances.by_id(work.task.resource_id)
    if instance is None:
        raise NodeError("The instance was destroyed meanwhile.")
    return instance


def machine(instance, medium=None):
    """The definition of the machine, from its row."""
    first = instance.disks[0]
    return Machine(
        id=instance.id,
        name=instance.name,
        cpu_cores=instance.cpu_cores,
        memory_mb=instance.ram,
        disks=tuple(disk_of(disk) for disk in instance.disks),
        nics=tuple(nic(interface, instance.hypervisor.network) for interface in instance.interfaces),
        media={"seed": medium or base.Disk(first.on.name, seed_name(instance), 0)},
        boot=tuple(part.strip() for part in instance.boot.split(",")),
        vnc=instance.enable_vnc,
        vnc_password=instance.vnc_password or "",
    )


def nic(interface, network):
    return Nic(
        mac=interface.mac,
        network=network,
        addresses=tuple(address.ip for address in interface.addresses),
        inbound_mbps=interface.port_speed,
        outbound_mbps=interface.port_speed,
    )


def disk_of(disk):
    return base.Disk(disk.on.name, disk.name, disk.size * GiB)


def seed_name(instance):
    return f"{instance.name}-seed.iso"


def on_node(image):
    """The image under the name that nodes know it by: these very bytes."""
    return base.Image(f"{image.sha256[:32]}.{image.format}", image_file(image), image.size)


def image_file(image) -> Path:
    return hypervisors.data_dir / "images" / image.filename
