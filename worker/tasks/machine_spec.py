"""What a machine is to be on its node, from the row of its instance and from what else is known of it."""

from pathlib import Path

from panel.services.instances import topology
from worker.nodes import base
from worker.nodes.base import GiB, Machine
from worker.sync import node_sync
from worker.tasks import firewall
from worker.tasks.spec_media import loaded
from worker.tasks.spec_rescue import rescued


def machine(instance, medium=None):
    """The definition of the machine, from its row and from what else is known of it."""
    return rescued(instance, loaded(instance, plain_machine(instance, firewall.cards(instance), medium)))


def plain_machine(instance, nics, medium=None):
    first = instance.disks[0]
    if made_here(instance):
        medium = medium or base.Disk(first.on.name, seed_name(instance), 0)
    return Machine(
        id=instance.id,
        name=instance.name,
        cpu_cores=instance.cpu_cores,
        memory_mb=instance.ram,
        disks=tuple(disk_of(disk) for disk in (*instance.disks, *instance.volumes) if in_machine(disk)),
        nics=nics,
        media={"seed": medium} if medium else {},
        boot=tuple(part.strip() for part in instance.boot.split(",")),
        vnc=instance.enable_vnc,
        vnc_password=instance.vnc_password or "",
        tpm=instance.tpm_enabled,
        secure_boot=instance.secure_boot_enabled,
        topology=topology.in_effect(instance),
    )


def disk_of(disk):
    """Of a disk's row or a volume's."""
    return base.Disk(disk.on.name, getattr(disk, "disk_name", disk.name), disk.size * GiB)


def in_machine(disk):
    """Whether the machine is to have it. A volume that was never used is made when it is attached."""
    return getattr(disk, "attached", True) and getattr(disk, "used", True)


def made_here(instance):
    """Whether the system on its first disk was made here. One that was adopted is called as it always was, and has no
    seed: its first boot was long ago."""
    return instance.disks[0].name.startswith(f"{instance.name}-0")


def seed_name(instance):
    """What is called like an adopted disk's seed is not the panel's: it must not be removed with it."""
    return seed_beside(instance.disks[0].name if made_here(instance) else f"{instance.name}-0.qcow2")


def seed_beside(disk):
    """A seed belongs to the system on a first disk: `h1-0.qcow2` has `h1-seed.iso`, `h1-0-a.qcow2` `h1-seed-a.iso`."""
    return f"{disk.removesuffix('.qcow2').replace('-0', '-seed', 1)}.iso"


def on_node(image):
    """The image under the name that nodes know it by: these very bytes."""
    return base.Image(f"{image.sha256[:32]}.{image.format}", image_file(image), image.size)


def image_file(image) -> Path:
    return node_sync.data_dir / "images" / image.filename
