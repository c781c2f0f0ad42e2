"""What workers saw of an instance."""

from sqlalchemy import update

from panel import clock, events
from panel.db import session
from panel.models import Instance

WORD = {"on": "running", "off": "stopped"}


def power(instance, state, *, at=None, actor="system"):
    """Notes the machine's power as a node reported it at `at`. A report that is older than the last one is ignored, so
    a slow poll never overwrites what an event or a task saw after it. A change is an event."""
    at = at or clock.now()
    before = instance.power
    newer = (Instance.power_at.is_(None)) | (Instance.power_at <= at)
    written = session.execute(
        update(Instance)
        .where(Instance.id == instance.id, newer)
        .values(power=state, power_at=at, lost=False)
        .execution_options(synchronize_session=False)
        .returning(Instance.id)
    ).one_or_none()
    if written is None:
        return
    session.refresh(instance, ["power", "power_at", "lost"])
    if before != state and instance.deployed:
        events.record(
            "instance.status_changed",
            "instance",
            instance,
            actor=actor,
            status=WORD[state],
            previous=WORD[before],
        )


def lost(instance):
    """Notes that the node does not have a machine which it should have."""
    if not instance.lost:
        power(instance, "off")
        instance.lost = True
        instance.last_error = "The machine is missing on its node. Its disks may still be there: ask support."


def deployed(instance, *, actor):
    """The machine was made and is on."""
    instance.deployed, instance.last_error, instance.lost = True, None, False
    events.record("instance.deployed", "instance", instance, actor=actor)


def failed(instance, error):
    instance.last_error = error


def destroyed(instance, *, actor):
    """The machine is gone. With its row go its disks and interfaces, and the database frees their addresses."""
    events.record("instance.deleted", "instance", instance, actor=actor)
    session.delete(instance)
