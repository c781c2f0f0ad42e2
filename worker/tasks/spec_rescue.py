"""The machine spec in rescue: the rescue disk comes first, with its own seed, and the machine's own disks follow."""

from contextlib import suppress
from dataclasses import replace
from functools import cache

from sqlalchemy import bindparam, select

from panel.core.db import session
from panel.models import Rescue
from panel.services.instances import rescue
from worker.nodes import base
from worker.nodes.base import GiB, NotOnNode

RESCUE_DISK_BYTES = GiB


def is_in_rescue(instance):
    """Return whether the instance is in rescue. Always queries the database, because others may have changed it."""
    return session.connection().scalar(select_rescue(), {"instance_id": instance.id}) is not None


@cache
def select_rescue():
    return select(Rescue.instance_id).where(Rescue.instance_id == bindparam("instance_id"))


def with_rescue_disk(instance, machine):
    """Return the spec with the rescue disk if the instance is in rescue, else unchanged."""
    return add_rescue_disk(instance, machine) if is_in_rescue(instance) else machine


def add_rescue_disk(instance, machine):
    disk, seed = build_rescue_disks(instance)
    changes = {"disks": (disk, *machine.disks), "media": {**machine.media, "seed": seed}, "boot": ("disk",)}
    return replace(machine, **changes, secure_boot=False)  # a rescue system need not be signed


def build_rescue_disks(instance):
    """Return the rescue system's disk and its seed."""
    pool = instance.disks[0].storage.name
    return base.Disk(pool, f"{instance.name}-rescue.qcow2", RESCUE_DISK_BYTES), base.Disk(
        pool, f"{instance.name}-rescue.iso", 0
    )


def list_rescue_disk_names(instance):
    """Return pool and name of the rescue disk and seed, whether or not they exist."""
    return [(disk.pool, disk.name) for disk in build_rescue_disks(instance)] if instance.disks else []


def disable_rescue(work, instance):
    """End the rescue of a machine that is off: delete disk, seed and password. The next start boots its own system."""
    if is_in_rescue(instance):
        for pool, name in list_rescue_disk_names(instance):
            with suppress(NotOnNode):
                work.node.delete_disk(pool, name)
        rescue.record_left(instance)
        session.commit()
