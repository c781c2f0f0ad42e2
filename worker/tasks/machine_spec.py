"""What a machine is to be on its node, from the row of its instance and from what else is known of it."""

from pathlib import Path

from panel.services.instances import topology
from worker.nodes import base
from worker.nodes.base import GiB, Machine
from worker.sync import node_sync
from worker.tasks import firewall
from worker.tasks.spec_media import with_media
from worker.tasks.spec_rescue import with_rescue_disk


def build_spec(instance, medium=None):
    """The definition of the machine, from its row and from what else is known of it."""
    return with_rescue_disk(instance, with_media(instance, base_spec(instance, firewall.build_nics(instance), medium)))


def base_spec(instance, nics, medium=None):
    first = instance.disks[0]
    if is_panel_built(instance):
        medium = medium or base.Disk(first.on.name, seed_name(instance), 0)
    return Machine(
        id=instance.id,
        name=instance.name,
        cpu_cores=instance.cpu_cores,
        memory_mb=instance.ram,
        disks=tuple(build_disk(disk) for disk in (*instance.disks, *instance.volumes) if is_disk_included(disk)),
        nics=nics,
        media={"seed": medium} if medium else {},
        boot=tuple(part.strip() for part in instance.boot.split(",")),
        vnc=instance.enable_vnc,
        vnc_password=instance.vnc_password or "",
        tpm=instance.tpm_enabled,
        secure_boot=instance.secure_boot_enabled,
        topology=topology.get_effective(instance),
    )


def build_disk(disk):
    """Of a disk's row or a volume's."""
    return base.Disk(disk.on.name, getattr(disk, "disk_name", disk.name), disk.size * GiB)


def is_disk_included(disk):
    """Whether the machine is to have it. A volume that was never used is made when it is attached."""
    return getattr(disk, "attached", True) and getattr(disk, "used", True)


def is_panel_built(instance):
    """Whether the system on its first disk was made here. One that was adopted is called as it always was, and has no
    seed: its first boot was long ago."""
    return instance.disks[0].name.startswith(f"{instance.name}-0")


def seed_name(instance):
    """What is called like an adopted disk's seed is not the panel's: it must not be removed with it."""
    return seed_name_for(instance.disks[0].name if is_panel_built(instance) else f"{instance.name}-0.qcow2")


def seed_name_for(disk):
    """A seed belongs to the system on a first disk: `h1-0.qcow2` has `h1-seed.iso`, `h1-0-a.qcow2` `h1-seed-a.iso`."""
    return f"{disk.removesuffix('.qcow2').replace('-0', '-seed', 1)}.iso"


def node_image(image):
    """The image under the name that nodes know it by: these very bytes."""
    return base.Image(f"{image.sha256[:32]}.{image.format}", image_path(image), image.size)


def image_path(image) -> Path:
    return node_sync.data_dir / "images" / image.filename
