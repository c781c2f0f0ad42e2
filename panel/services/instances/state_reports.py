"""What workers report about instances. Rows are locked with `lock_instances` first, so that no decision uses an old
value."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache

from sqlalchemy import Select, bindparam, exists, select
from sqlalchemy.orm import joinedload

from panel.core import clock, events
from panel.core.db import session, with_lock
from panel.core.messages import message
from panel.models import Event, Instance
from panel.services import address_log, instance_backups, security_groups, usage

DEPLOY_EVENT_KINDS = ("instance.deployed", "instance.reinstalled")
REDEPLOY_WINDOW = timedelta(days=7)
PAUSED_MESSAGE = message("The hypervisor paused the guest, for example because a storage is full. Start it to resume.")
MISSING_MESSAGE = message("The VM is missing on its hypervisor. Its disks may still exist. Contact support.")


def lock_instances(*instance_ids: str) -> Sequence[Instance]:
    """Return the instances that still exist, read again and locked until the transaction ends."""
    return session.scalars(select_locked(), {"instance_ids": instance_ids}).all()


@cache
def select_locked() -> Select[Instance]:
    query = select(Instance).where(Instance.id.in_(bindparam("instance_ids", expanding=True))).order_by(Instance.id)
    return with_lock(query.options(joinedload(Instance.group)), key_share=True, of=Instance)


def report_power(instance: Instance, state: str, *, at: datetime, actor: str = "system") -> bool:
    """Record the machine's power, read from the node by a query that began at `at`.

    Return False for a query that began before the last report was recorded: it may have read an older power. (A last
    report in the future comes from a clock that was set back and is ignored.) A change is recorded as an event.
    """
    now = clock.now()
    if instance.power_reported_at and at < instance.power_reported_at <= now:
        return False
    before, instance.power, instance.power_reported_at = instance.power, state, now
    if state == "off":
        report_paused(instance, False)
        instance.started_cpu_cores = instance.started_ram = None
        instance.topology_pending = False
    if instance.missing_on_node:
        instance.missing_on_node, instance.last_error = False, None
    if before != state and instance.deployed:
        statuses = {"status": events.POWER_STATUS[state], "previous": events.POWER_STATUS[before]}
        events.record("instance.status_changed", "instance", instance, actor=actor, **statuses)
    return True


def report_missing(instance: Instance, *, at: datetime) -> bool:
    """Record that a deployed machine is missing on its node. Return False like `report_power`."""
    if not report_power(instance, "off", at=at):
        return False
    if instance.deployed:
        instance.missing_on_node, instance.last_error = True, MISSING_MESSAGE
    return True


def report_paused(instance: Instance, is_paused: bool) -> None:
    """Record that the node has paused a machine that counts as on, or that it runs again."""
    instance.paused = is_paused
    if is_paused:
        instance.last_error = PAUSED_MESSAGE
    elif instance.last_error == PAUSED_MESSAGE:
        instance.last_error = None


def on_deployed(instance: Instance, *, actor: str) -> None:
    """Record that the machine was created and is on. The event is `instance.reinstalled` when the history has an
    earlier deploy (WHK-61)."""
    instance.deployed, instance.last_error, instance.missing_on_node, instance.paused = True, None, False, False
    kind = "instance.reinstalled" if was_deployed_lately(instance) else "instance.deployed"
    events.record(kind, "instance", instance, actor=actor)


def was_deployed_lately(instance: Instance) -> bool:
    conditions = (
        Event.resource_id == instance.id,
        Event.kind.in_(DEPLOY_EVENT_KINDS),
        Event.created_at > clock.now() - REDEPLOY_WINDOW,
    )
    return session.scalars(select(exists().where(*conditions))).one()


def record_failure(instance: Instance, error: str) -> None:
    instance.last_error = error


def on_destroyed(instance: Instance, *, actor: str, delete_backups: bool = False) -> None:
    """Delete the row of a machine that is gone, with its disks and interfaces; the database releases its addresses. Its
    backups stay unless their deletion was requested."""
    events.record("instance.deleted", "instance", instance, actor=actor)
    usage.stop_metering(instance)
    security_groups.on_instance_removed(instance)
    instance_backups.on_instance_destroyed(instance, delete_backups=delete_backups, actor=actor)
    for volume in instance.volumes:
        volume.instance, volume.status = None, "available"
    address_log.record_released(instance)
    session.flush()
    session.delete(instance)
