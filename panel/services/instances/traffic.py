"""The traffic allowance of instances: what passed in a billing period, and what happens when it is used up.

A billing period is a calendar month (UTC). Both directions count, as the guest sees them. The policy of the plan says
what happens at the end of the allowance:

* `none`: nothing.
* `network`: its public cards are cut off (the cable is out). The machine goes on running and its state stays; this is
  no suspension, so no `instance.suspended` is told.
* `instance`: it is suspended with the reason `network` (specification 6.1): it is off.

Both end by themselves with the next month, a larger allowance, another policy, or when an operator sets the counter
to zero.
"""

from sqlalchemy import BigInteger, cast, func, select

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Conflict
from panel.models import Instance, Interface, MonthlyTraffic, Plan
from panel.services import firewall, usage
from panel.services.instances.suspension import suspend, unsuspend

BYTES_PER_GB = 1_000_000_000
TRAFFIC_BATCH_SIZE = 200
OFF_BY_TRAFFIC, OFF_BY_OPERATOR = "traffic", "operator"


def reset_month():
    """Begins the new month for some of the cards that are still in an earlier one: what they counted becomes history.
    Says how many there were; it may run at once with another."""
    month = usage.make_month_key(clock.now())
    late = select(Interface).where(Interface.period < month).limit(TRAFFIC_BATCH_SIZE).with_for_update(skip_locked=True)
    cards = session.scalars(late.execution_options(populate_existing=True)).all()
    for card in cards:
        record_month(card)
        card.received = card.sent = 0
        card.period = month
    session.flush()
    return len(cards)


def record_month(interface):
    known = select(MonthlyTraffic).where(
        MonthlyTraffic.instance_id == interface.instance_id, MonthlyTraffic.month == interface.period
    )
    row = session.scalar(known) or MonthlyTraffic(
        instance_id=interface.instance_id, month=interface.period, received=0, sent=0
    )
    row.received, row.sent = row.received + interface.received, row.sent + interface.sent
    session.add(row)
    session.flush()


def describe_traffic(instance):
    """What passed in this period and before, and what it means."""
    month = usage.make_month_key(clock.now())
    cards = [card for card in instance.interfaces if card.kind == "public"]
    mine = [card for card in cards if card.period == month]
    past = (
        select(MonthlyTraffic)
        .where(MonthlyTraffic.instance_id == instance.id)
        .order_by(MonthlyTraffic.month.desc())
        .limit(24)
    )
    starts = clock.now().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    received, sent = sum(card.received for card in mine), sum(card.sent for card in mine)
    return {
        "month": month,
        "starts_at": starts,
        "ends_at": starts.replace(year=starts.year + starts.month // 12, month=starts.month % 12 + 1),
        "received": received,
        "sent": sent,
        "used_bandwidth": round((received + sent) / BYTES_PER_GB, 2),
        "bandwidth": instance.bandwidth,
        "overage": instance.plan.overage,
        "off": next((card.off for card in cards if card.off), None),
        "history": session.scalars(past).all(),
    }


def select_used_bytes():
    """Bytes of an instance in this period, for the database."""
    cards = select(func.coalesce(func.sum(Interface.received + Interface.sent), 0))
    this = Interface.period == usage.make_month_key(clock.now())
    return cards.where(Interface.instance_id == Instance.id, Interface.kind == "public", this).scalar_subquery()


def exceeded_condition():
    allowed = cast(Instance.bandwidth, BigInteger) * BYTES_PER_GB
    return (Instance.bandwidth > 0) & (Plan.overage != "none") & (select_used_bytes() >= allowed)


def enforce_quota(*instance_ids):
    """Cuts off who has used up the allowance, and lets back in who has not any more. Without ids everybody."""
    every = select(Instance).join(Plan, Instance.plan).limit(TRAFFIC_BATCH_SIZE)
    if instance_ids:
        every = every.where(Instance.id.in_(instance_ids))
    out = Instance.interfaces.any(Interface.off == OFF_BY_TRAFFIC)
    open_ones = Instance.interfaces.any((Interface.kind == "public") & Interface.off.is_(None))
    for instance in session.scalars(every.where(exceeded_condition(), open_ones, ~Instance.migrating)).all():
        disconnect_over_quota(instance)
    for instance in session.scalars(every.where(out, ~exceeded_condition(), ~Instance.migrating)).all():
        reconnect(instance)


def disconnect_over_quota(instance):
    set_disconnected(instance, None, OFF_BY_TRAFFIC)
    if instance.plan.overage == "instance":
        suspend(instance, reason="network", actor="system")
    firewall.apply_to_affected(instances=[instance.id])


def reconnect(instance):
    set_disconnected(instance, OFF_BY_TRAFFIC, None)
    if instance.suspended_reason == "network":
        unsuspend(instance, actor="system")
    firewall.apply_to_affected(instances=[instance.id])


def set_disconnected(instance, before, after):
    """Changes the word of the public cards that have this one. Returns whether there were any."""
    cards = [card for card in instance.interfaces if card.kind == "public" and card.off == before]
    for card in cards:
        card.off = after
    session.flush()
    return bool(cards)


def reset(instance):
    """Sets the counters of this period to zero; who was cut off for them is let back in."""
    for card in instance.interfaces:
        session.refresh(card, with_for_update=True)
        card.received = card.sent = 0
    session.flush()
    enforce_quota(instance.id)


def set_allowance(instance, *, actor, bandwidth=None, port_speed=None):
    """Changes the allowance (GB a month) and the speed (Mbit/s each way) of one instance; 0 is unlimited."""
    if bandwidth is not None:
        instance.bandwidth = bandwidth
    if port_speed is not None:
        for card in instance.interfaces:
            card.port_speed = port_speed
    session.flush()
    if port_speed is not None:
        firewall.apply_to_affected(instances=[instance.id], actor=actor)
    enforce_quota(instance.id)


def connect(instance, *, actor, by_operator=False):
    """Puts in the cable of the public card, which may be in already. Returns the card. What an operator took out only
    an operator puts in, and what the allowance took out comes back with it."""
    card = next((card for card in instance.interfaces if card.kind == "public"), None)
    if card is None:
        raise Conflict("The instance has no public network card.")
    if card.off == OFF_BY_TRAFFIC:
        raise Conflict("The traffic of this month is used up. The network comes back with the next month.")
    if card.off == OFF_BY_OPERATOR and not by_operator:
        raise Conflict("An operator has cut off the network of this instance. Ask support.")
    if set_disconnected(instance, OFF_BY_OPERATOR, None):
        firewall.apply_to_affected(instances=[instance.id], actor=actor)
    return card


def disconnect(instance, *, actor):
    """Takes out the cable of the public cards, until an operator puts it in again."""
    if set_disconnected(instance, None, OFF_BY_OPERATOR) | set_disconnected(instance, OFF_BY_TRAFFIC, OFF_BY_OPERATOR):
        firewall.apply_to_affected(instances=[instance.id], actor=actor)
