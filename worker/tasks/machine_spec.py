"""Building a machine spec, the definition for the node, from an instance's rows."""

from pathlib import Path

from panel.core import context
from panel.services.instances import topology
from worker.nodes import base
from worker.nodes.base import GiB, Machine
from worker.tasks import firewall
from worker.tasks.spec_media import add_media
from worker.tasks.spec_rescue import with_rescue_disk


def build_spec(instance, seed_disk=None):
    """Return the machine spec of the instance with rules, media and, in rescue, the rescue disk."""
    return with_rescue_disk(
        instance, add_media(instance, build_base_spec(instance, firewall.build_nics(instance), seed_disk))
    )


def build_base_spec(instance, nics, seed_disk=None):
    first_disk = instance.disks[0]
    if is_panel_built(instance):
        seed_disk = seed_disk or base.Disk(first_disk.storage.name, get_seed_name(instance), 0)
    return Machine(
        id=instance.id,
        name=instance.name,
        cpu_cores=instance.cpu_cores,
        memory_mb=instance.ram,
        disks=tuple(build_disk(disk) for disk in (*instance.disks, *instance.volumes) if is_disk_included(disk)),
        nics=nics,
        media={"seed": seed_disk} if seed_disk else {},
        boot=tuple(device.strip() for device in instance.boot.split(",")),
        vnc=instance.enable_vnc,
        vnc_password=instance.vnc_password or "",
        tpm=instance.tpm_enabled,
        secure_boot=instance.secure_boot_enabled,
        topology=topology.get_effective(instance),
    )


def build_disk(disk):
    """Return the disk of a disk's row or a volume's."""
    return base.Disk(disk.storage.name, getattr(disk, "disk_name", disk.name), disk.size * GiB)


def is_disk_included(disk):
    """Return whether the spec has the disk. A volume that was never used is created when it is attached."""
    return getattr(disk, "attached", True) and getattr(disk, "ever_attached", True)


def is_panel_built(instance):
    """Return whether the panel created the system on the first disk.

    An imported disk keeps its name and has no seed, because its first boot was before the import.
    """
    return instance.disks[0].name.startswith(f"{instance.name}-0")


def get_seed_name(instance):
    """Return the name of the instance's seed.

    For an imported disk it is not derived from the disk's name, so that no foreign file is deleted with it.
    """
    return make_seed_name(instance.disks[0].name if is_panel_built(instance) else f"{instance.name}-0.qcow2")


def make_seed_name(disk):
    """Return the seed's name for a first disk: `h1-seed.iso` for `h1-0.qcow2`, `h1-seed-a.iso` for `h1-0-a.qcow2`."""
    return f"{disk.removesuffix('.qcow2').replace('-0', '-seed', 1)}.iso"


def build_node_image(image):
    """Return the image under its name on nodes, which contains the checksum."""
    return base.Image(f"{image.sha256[:32]}.{image.format}", get_image_path(image), image.size)


def get_image_path(image) -> Path:
    return context.current().config.data_dir / "images" / image.filename
