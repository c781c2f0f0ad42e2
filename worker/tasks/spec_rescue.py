"""What a machine in rescue is: the same machine with another first disk and another seed. Its own disks come behind."""

from contextlib import suppress
from dataclasses import replace
from functools import cache

from sqlalchemy import bindparam, select

from panel.core.db import session
from panel.models import Rescue
from panel.services.instances import rescue
from worker.nodes import base
from worker.nodes.base import GiB, Missing

RESCUE_DISK_BYTES = GiB


def is_in_rescue(instance):
    """Whether it is in rescue, read anew: others may have changed that."""
    return session.connection().scalar(select_rescue(), {"instance_id": instance.id}) is not None


@cache
def select_rescue():
    return select(Rescue.instance_id).where(Rescue.instance_id == bindparam("instance_id"))


def with_rescue_disk(instance, machine):
    """The machine as it is defined now: in rescue when its row says so."""
    return add_rescue_disk(instance, machine) if is_in_rescue(instance) else machine


def add_rescue_disk(instance, machine):
    disk, seed = rescue_disks(instance)
    ours = {"disks": (disk, *machine.disks), "media": {**machine.media, "seed": seed}, "boot": ("disk",)}
    return replace(machine, **ours, secure_boot=False)  # a rescue system need not be signed


def rescue_disks(instance):
    """The disk of the rescue system, and its seed."""
    pool = instance.disks[0].on.name
    return base.Disk(pool, f"{instance.name}-rescue.qcow2", RESCUE_DISK_BYTES), base.Disk(
        pool, f"{instance.name}-rescue.iso", 0
    )


def rescue_disk_names(instance):
    """What a destroy removes, too: it does no harm when it is not there."""
    return [(thing.pool, thing.name) for thing in rescue_disks(instance)] if instance.disks else []


def disable_rescue(work, instance):
    """Ends the rescue of a machine that is off: the password is gone, and the next start boots its own system."""
    if is_in_rescue(instance):
        for pool, name in rescue_disk_names(instance):
            with suppress(Missing):
                work.node.delete_disk(pool, name)
        rescue.record_left(instance)
        session.commit()
