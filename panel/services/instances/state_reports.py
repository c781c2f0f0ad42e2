"""What workers report about instances. Rows are locked by `lock_instances` first, so no decision uses an old value."""

from datetime import timedelta
from functools import cache

from sqlalchemy import bindparam, exists, select
from sqlalchemy.orm import joinedload

from panel.core import clock, events
from panel.core.db import session
from panel.models import Event, Instance
from panel.services import security_groups, usage

DEPLOY_EVENT_KINDS = ("instance.deployed", "instance.reinstalled")
REDEPLOY_WINDOW = timedelta(days=7)
PAUSED_MESSAGE = "The hypervisor has paused the guest, as it does when a storage is full. Start it to let it go on."
MISSING_MESSAGE = "The machine is missing on its node. Its disks may still be there: ask support."


def lock_instances(*instance_ids):
    """The instances as they are now, those that are left, locked until the transaction ends."""
    return session.scalars(select_locked(), {"instance_ids": instance_ids}).all()


@cache
def select_locked():
    found = select(Instance).where(Instance.id.in_(bindparam("instance_ids", expanding=True))).order_by(Instance.id)
    found = found.options(joinedload(Instance.group)).with_for_update(key_share=True, of=Instance)
    return found.execution_options(populate_existing=True)


def report_power(instance, state, *, at, actor="system"):
    """Notes the machine's power as the node had it at `at`, and says whether that was news. A report older than the
    last one is not, so a slow poll never overwrites what an event said after it. (A time in the future is from a clock
    that was set back, and does not count.) A change is an event."""
    if instance.power_at and at < instance.power_at <= clock.now():
        return False
    before, instance.power, instance.power_at = instance.power, state, at
    if state == "off":
        report_paused(instance, False)
        instance.started_cpu_cores = instance.started_ram = None
        instance.topology_pending = False
    if instance.lost:
        instance.lost, instance.last_error = False, None
    if before != state and instance.deployed:
        words = {"status": events.POWER_STATUS[state], "previous": events.POWER_STATUS[before]}
        events.record("instance.status_changed", "instance", instance, actor=actor, **words)
    return True


def report_missing(instance, *, at):
    """Notes that the node does not have the machine, which one that is deployed should have."""
    if report_power(instance, "off", at=at) and instance.deployed:
        instance.lost, instance.last_error = True, MISSING_MESSAGE


def report_paused(instance, is_paused):
    """Notes that the node has paused a machine that counts as on, or that it runs again."""
    instance.frozen = is_paused
    if is_paused:
        instance.last_error = PAUSED_MESSAGE
    elif instance.last_error == PAUSED_MESSAGE:
        instance.last_error = None


def on_deployed(instance, *, actor):
    """The machine was made and is on. It was reinstalled when its history knows of another time (specification 6.1)."""
    instance.deployed, instance.last_error, instance.lost, instance.frozen = True, None, False, False
    kind = "instance.reinstalled" if was_deployed_lately(instance) else "instance.deployed"
    events.record(kind, "instance", instance, actor=actor)


def was_deployed_lately(instance):
    known = (
        Event.resource_id == instance.id,
        Event.kind.in_(DEPLOY_EVENT_KINDS),
        Event.created_at > clock.now() - REDEPLOY_WINDOW,
    )
    return session.scalar(select(exists().where(*known)))


def record_failure(instance, error):
    instance.last_error = error


def on_destroyed(instance, *, actor):
    """The machine is gone. With its row go its disks and interfaces, and the database frees their addresses."""
    events.record("instance.deleted", "instance", instance, actor=actor)
    usage.stop_metering(instance)
    security_groups.on_instance_removed(instance)
    for volume in instance.volumes:
        volume.instance, volume.status = None, "available"
    session.flush()
    session.delete(instance)
