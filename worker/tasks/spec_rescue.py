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

SIZE = GiB


def active(instance):
    """Whether it is in rescue, read anew: others may have changed that."""
    return session.connection().scalar(rescue_of(), {"instance_id": instance.id}) is not None


@cache
def rescue_of():
    return select(Rescue.instance_id).where(Rescue.instance_id == bindparam("instance_id"))


def rescued(instance, machine):
    """The machine as it is defined now: in rescue when its row says so."""
    return in_rescue(instance, machine) if active(instance) else machine


def in_rescue(instance, machine):
    disk, seed = things(instance)
    ours = {"disks": (disk, *machine.disks), "media": {**machine.media, "seed": seed}, "boot": ("disk",)}
    return replace(machine, **ours, secure_boot=False)  # a rescue system need not be signed


def things(instance):
    """The disk of the rescue system, and its seed."""
    pool = instance.disks[0].on.name
    return base.Disk(pool, f"{instance.name}-rescue.qcow2", SIZE), base.Disk(pool, f"{instance.name}-rescue.iso", 0)


def named(instance):
    """What a destroy removes, too: it does no harm when it is not there."""
    return [(thing.pool, thing.name) for thing in things(instance)] if instance.disks else []


def leave(work, instance):
    """Ends the rescue of a machine that is off: the password is gone, and the next start boots its own system."""
    if active(instance):
        for pool, name in named(instance):
            with suppress(Missing):
                work.node.delete_disk(pool, name)
        rescue.left(instance)
        session.commit()
