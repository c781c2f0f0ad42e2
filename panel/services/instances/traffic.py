"""The traffic allowance of instances: the bytes of a billing period, and what happens when the allowance is used up.

A billing period is a calendar month (UTC). Both directions count, as the guest sees them. The plan's policy decides
what happens at the end of the allowance:

* `none`: nothing.
* `network`: its public interfaces are disconnected (link down). The machine keeps running and its state stays. This is
  no suspension, so there is no `instance.suspended` event.
* `instance`: it is suspended with the reason `network` (WHK-59): it is off.

Both end with the next month, a larger allowance, another policy, or when an operator resets the counter.
"""

from typing import Any

from sqlalchemy import BigInteger, ColumnElement, ScalarSelect, cast, func, select

from panel.core import clock
from panel.core.db import session, with_lock
from panel.core.errors import Conflict
from panel.core.messages import message
from panel.models import Instance, Interface, MonthlyTraffic, Plan
from panel.services import firewall, usage
from panel.services.instances.suspension import suspend, unsuspend

BYTES_PER_GB = 1_000_000_000
TRAFFIC_BATCH_SIZE = 200
OFF_BY_TRAFFIC, OFF_BY_OPERATOR = "traffic", "operator"


def reset_month() -> int:
    """Start the new month for a batch of interfaces that still count an earlier one, whose bytes are added to the
    history. Return how many there were. Concurrent calls are safe."""
    month = usage.make_month_key(clock.now())
    query = select(Interface).where(Interface.period < month).limit(TRAFFIC_BATCH_SIZE)
    interfaces = session.scalars(with_lock(query, skip_locked=True)).all()
    for interface in interfaces:
        record_month(interface)
        interface.received = interface.sent = 0
        interface.period = month
    session.flush()
    return len(interfaces)


def record_month(interface: Interface) -> None:
    query = select(MonthlyTraffic).where(
        MonthlyTraffic.instance_id == interface.instance_id, MonthlyTraffic.month == interface.period
    )
    row = session.scalar(query) or MonthlyTraffic(
        instance_id=interface.instance_id, month=interface.period, received=0, sent=0
    )
    row.received, row.sent = row.received + interface.received, row.sent + interface.sent
    session.add(row)
    session.flush()


def describe_traffic(instance: Instance) -> dict[str, Any]:
    """Return the traffic of this month and of earlier ones, with the allowance and its policy."""
    month = usage.make_month_key(clock.now())
    interfaces = [interface for interface in instance.interfaces if interface.kind == "public"]
    current = [interface for interface in interfaces if interface.period == month]
    query = (
        select(MonthlyTraffic)
        .where(MonthlyTraffic.instance_id == instance.id)
        .order_by(MonthlyTraffic.month.desc())
        .limit(24)
    )
    starts = clock.now().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    received, sent = sum(interface.received for interface in current), sum(interface.sent for interface in current)
    return {
        "month": month,
        "starts_at": starts,
        "ends_at": starts.replace(year=starts.year + starts.month // 12, month=starts.month % 12 + 1),
        "received": received,
        "sent": sent,
        "used_bandwidth": round((received + sent) / BYTES_PER_GB, 2),
        "bandwidth": instance.bandwidth,
        "overage": instance.plan.overage,
        "off": next((interface.disconnect_reason for interface in interfaces if interface.disconnect_reason), None),
        "history": session.scalars(query).all(),
    }


def count_used_bytes(instance: Instance) -> int:
    """Return the bytes of this month from the loaded interfaces, without a query."""
    month = usage.make_month_key(clock.now())
    current = [row for row in instance.interfaces if row.kind == "public" and row.period == month]
    return sum(interface.received + interface.sent for interface in current)


def select_used_bytes() -> ScalarSelect[int]:
    """Return a subquery with an instance's bytes of this month."""
    query = select(func.coalesce(func.sum(Interface.received + Interface.sent), 0))
    this_month = Interface.period == usage.make_month_key(clock.now())
    return query.where(Interface.instance_id == Instance.id, Interface.kind == "public", this_month).scalar_subquery()


def exceeded_condition() -> ColumnElement[bool]:
    allowed = cast(Instance.bandwidth, BigInteger) * BYTES_PER_GB
    return (Instance.bandwidth > 0) & (Plan.overage != "none") & (select_used_bytes() >= allowed)


def enforce_quota(*instance_ids: str) -> None:
    """Disconnect instances that have used up their allowance, and reconnect those that have not any more. Without ids
    all instances are checked, in batches."""
    query = select(Instance).join(Plan, Instance.plan).limit(TRAFFIC_BATCH_SIZE)
    if instance_ids:
        query = query.where(Instance.id.in_(instance_ids))
    is_disconnected = Instance.interfaces.any(Interface.disconnect_reason == OFF_BY_TRAFFIC)
    is_connected = Instance.interfaces.any((Interface.kind == "public") & Interface.disconnect_reason.is_(None))
    for instance in session.scalars(query.where(exceeded_condition(), is_connected, ~Instance.migrating)).all():
        disconnect_over_quota(instance)
    for instance in session.scalars(query.where(is_disconnected, ~exceeded_condition(), ~Instance.migrating)).all():
        reconnect(instance)


def disconnect_over_quota(instance: Instance) -> None:
    set_disconnected(instance, None, OFF_BY_TRAFFIC)
    if instance.plan.overage == "instance":
        suspend(instance, reason="network", actor="system")
    firewall.apply_to_affected(instances=[instance.id])


def reconnect(instance: Instance) -> None:
    set_disconnected(instance, OFF_BY_TRAFFIC, None)
    if instance.suspended_reason == "network":
        unsuspend(instance, actor="system")
    firewall.apply_to_affected(instances=[instance.id])


def set_disconnected(instance: Instance, before: str | None, after: str | None) -> bool:
    """Change the disconnect reason of public interfaces from `before` to `after`. Return whether there were any."""
    interfaces = [
        interface
        for interface in instance.interfaces
        if interface.kind == "public" and interface.disconnect_reason == before
    ]
    for interface in interfaces:
        interface.disconnect_reason = after
    session.flush()
    return bool(interfaces)


def reset(instance: Instance) -> None:
    """Reset the counters of this month; an instance that was disconnected for them is reconnected."""
    query = select(Interface).where(Interface.instance_id == instance.id).order_by(Interface.position)
    for interface in session.scalars(with_lock(query, of=Interface)).unique():
        interface.received = interface.sent = 0
    session.flush()
    enforce_quota(instance.id)


def set_allowance(
    instance: Instance, *, actor: str, bandwidth: int | None = None, port_speed: int | None = None
) -> None:
    """Change the allowance (GB a month) and the speed (Mbit/s in each direction) of one instance; 0 is unlimited."""
    if bandwidth is not None:
        instance.bandwidth = bandwidth
    if port_speed is not None:
        for interface in instance.interfaces:
            interface.port_speed = port_speed
    session.flush()
    if port_speed is not None:
        firewall.apply_to_affected(instances=[instance.id], actor=actor)
    enforce_quota(instance.id)


def connect(instance: Instance, *, actor: str, by_operator: bool = False) -> Interface:
    """Connect the public interface, if it is not. Return it. Only an operator may reconnect what an operator
    disconnected. After a used-up allowance it reconnects with the next month."""
    interface = next((interface for interface in instance.interfaces if interface.kind == "public"), None)
    if interface is None:
        raise Conflict(message("The instance has no public network card."))
    if interface.disconnect_reason == OFF_BY_TRAFFIC:
        raise Conflict(message("This month's traffic is used up. The network is reconnected next month."))
    if interface.disconnect_reason == OFF_BY_OPERATOR and not by_operator:
        raise Conflict(message("An operator disconnected the network of this instance. Contact support."))
    if set_disconnected(instance, OFF_BY_OPERATOR, None):
        firewall.apply_to_affected(instances=[instance.id], actor=actor)
    return interface


def disconnect(instance: Instance, *, actor: str) -> None:
    """Disconnect the public interfaces until an operator connects them again."""
    if set_disconnected(instance, None, OFF_BY_OPERATOR) | set_disconnected(instance, OFF_BY_TRAFFIC, OFF_BY_OPERATOR):
        firewall.apply_to_affected(instances=[instance.id], actor=actor)
