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
from panel.models import Instance, Interface, Plan, Traffic
from panel.services import firewall, usage
from panel.services.instances.suspension import suspend, unsuspend

GB = 1_000_000_000
AT_ONCE = 200
USED_UP, BY_OPERATOR = "traffic", "operator"


def turn():
    """Begins the new month for some of the cards that are still in an earlier one: what they counted becomes history.
    Says how many there were; it may run at once with another."""
    month = usage.month_of(clock.now())
    late = select(Interface).where(Interface.period < month).limit(AT_ONCE).with_for_update(skip_locked=True)
    cards = session.scalars(late.execution_options(populate_existing=True)).all()
    for card in cards:
        note(card)
        card.received = card.sent = 0
        card.period = month
    session.flush()
    return len(cards)


def note(card):
    known = select(Traffic).where(Traffic.instance_id == card.instance_id, Traffic.month == card.period)
    row = session.scalar(known) or Traffic(instance_id=card.instance_id, month=card.period, received=0, sent=0)
    row.received, row.sent = row.received + card.received, row.sent + card.sent
    session.add(row)
    session.flush()


def of(instance):
    """What passed in this period and before, and what it means."""
    month = usage.month_of(clock.now())
    cards = [card for card in instance.interfaces if card.kind == "public"]
    mine = [card for card in cards if card.period == month]
    past = select(Traffic).where(Traffic.instance_id == instance.id).order_by(Traffic.month.desc()).limit(24)
    starts = clock.now().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    received, sent = sum(card.received for card in mine), sum(card.sent for card in mine)
    return {
        "month": month,
        "starts_at": starts,
        "ends_at": starts.replace(year=starts.year + starts.month // 12, month=starts.month % 12 + 1),
        "received": received,
        "sent": sent,
        "used_bandwidth": round((received + sent) / GB, 2),
        "bandwidth": instance.bandwidth,
        "overage": instance.plan.overage,
        "off": next((card.off for card in cards if card.off), None),
        "history": session.scalars(past).all(),
    }


def used():
    """Bytes of an instance in this period, for the database."""
    cards = select(func.coalesce(func.sum(Interface.received + Interface.sent), 0))
    this = Interface.period == usage.month_of(clock.now())
    return cards.where(Interface.instance_id == Instance.id, Interface.kind == "public", this).scalar_subquery()


def exceeded():
    allowed = cast(Instance.bandwidth, BigInteger) * GB
    return (Instance.bandwidth > 0) & (Plan.overage != "none") & (used() >= allowed)


def judge(*instance_ids):
    """Cuts off who has used up the allowance, and lets back in who has not any more. Without ids everybody."""
    every = select(Instance).join(Plan, Instance.plan).limit(AT_ONCE)
    if instance_ids:
        every = every.where(Instance.id.in_(instance_ids))
    out = Instance.interfaces.any(Interface.off == USED_UP)
    open_ones = Instance.interfaces.any((Interface.kind == "public") & Interface.off.is_(None))
    for instance in session.scalars(every.where(exceeded(), open_ones, ~Instance.migrating)).all():
        shut(instance)
    for instance in session.scalars(every.where(out, ~exceeded(), ~Instance.migrating)).all():
        reopen(instance)


def shut(instance):
    put(instance, None, USED_UP)
    if instance.plan.overage == "instance":
        suspend(instance, reason="network", actor="system")
    firewall.changed(instances=[instance.id])


def reopen(instance):
    put(instance, USED_UP, None)
    if instance.suspended_reason == "network":
        unsuspend(instance, actor="system")
    firewall.changed(instances=[instance.id])


def put(instance, before, after):
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
    judge(instance.id)


def allow(instance, *, actor, bandwidth=None, port_speed=None):
    """Changes the allowance (GB a month) and the speed (Mbit/s each way) of one instance; 0 is unlimited."""
    if bandwidth is not None:
        instance.bandwidth = bandwidth
    if port_speed is not None:
        for card in instance.interfaces:
            card.port_speed = port_speed
    session.flush()
    if port_speed is not None:
        firewall.changed(instances=[instance.id], actor=actor)
    judge(instance.id)


def connect(instance, *, actor, by_operator=False):
    """Puts in the cable of the public card, which may be in already. Returns the card. What an operator took out only
    an operator puts in, and what the allowance took out comes back with it."""
    card = next((card for card in instance.interfaces if card.kind == "public"), None)
    if card is None:
        raise Conflict("The instance has no public network card.")
    if card.off == USED_UP:
        raise Conflict("The traffic of this month is used up. The network comes back with the next month.")
    if card.off == BY_OPERATOR and not by_operator:
        raise Conflict("An operator has cut off the network of this instance. Ask support.")
    if put(instance, BY_OPERATOR, None):
        firewall.changed(instances=[instance.id], actor=actor)
    return card


def disconnect(instance, *, actor):
    """Takes out the cable of the public cards, until an operator puts it in again."""
    if put(instance, None, BY_OPERATOR) | put(instance, USED_UP, BY_OPERATOR):
        firewall.changed(instances=[instance.id], actor=actor)
