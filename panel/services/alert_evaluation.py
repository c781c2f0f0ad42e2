"""Evaluate alert rules: compare the newest values with the limits, and record changes with their notifications.

A batch is one transaction, which holds its rules. A change of a status, its history and its notifications are committed
together, so a killed worker loses none and makes none twice.
"""

import operator
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Row, and_, func, or_, select

from panel.core import clock
from panel.core import events as activity
from panel.core.db import generate_id, session
from panel.models import (
    Account,
    AlertEvent,
    AlertNotification,
    AlertRule,
    AlertState,
    GuestInfo,
    Instance,
    InstanceMetric,
    NotificationChannel,
)
from panel.models.alert_rules import alert_rule_channels
from panel.models.metrics import METRIC_NAMES
from panel.services import inbox
from panel.services.events import ALERT_EVENT
from panel.services.inbox.reports import build_alert_report
from panel.services.metrics.export import get_disk_percent, is_current_report
from panel.services.metrics.ring_buffer import FINEST_STEP, compute_slot

BATCH_RULES = 1000
"""Rules of one transaction."""

VALUE_SECONDS = 75
"""Age up to which samples count: five steps, because the newest may not be complete."""

INTERVAL_TOLERANCE = timedelta(seconds=5)
"""The time between two evaluations varies: a duration or interval that is nearly over is over."""

COMPARISONS = {"gt": operator.gt, "lt": operator.lt, "gte": operator.ge, "lte": operator.le, "eq": operator.eq}

COLUMN_BY_METRIC = {
    "cpu_pct": "cpu_percent",
    "cpu": "cpu_percent",
    "mem_pct": "memory_used",
    "memory": "memory_used",
    "bandwidth_in": "network_receive_mbps",
    "bandwidth_out": "network_transmit_mbps",
}
"""The stored column of each metric whose name differs."""

MEMORY_COLUMN = "memory_used"
DISK_METRIC = "disk_pct"
"""How full the file systems are, which the guest reports. It is not among the samples."""

ACTIVITY_KINDS = ("firing", "resolved")
RULE_COLUMNS = (
    AlertRule.id,
    AlertRule.account_id,
    AlertRule.name,
    AlertRule.resource_id,
    AlertRule.metric,
    AlertRule.operator,
    AlertRule.threshold,
    AlertRule.duration,
    AlertRule.reminder_interval,
)
samples = InstanceMetric.__table__.c


class ActivityTarget(NamedTuple):
    """The instance of an event, with the owner of the rule."""

    id: str
    account_id: str


def evaluate_batch(now: datetime, after_id: str) -> str | None:
    """Evaluate the rules after this id, without those of suspended accounts. Return the id of the last one, None when
    there are no more. Five queries, one more for disks, and a constant number more when alerts begin."""
    query = select(*RULE_COLUMNS).join(Account, Account.id == AlertRule.account_id)
    query = query.where(AlertRule.enabled, Account.suspended_at.is_(None), AlertRule.id > after_id)
    query = query.order_by(AlertRule.id).limit(BATCH_RULES)
    rules = session.execute(query.with_for_update(skip_locked=True, key_share=True, of=AlertRule)).all()
    if not rules:
        return None
    values_by_id, values_by_account = load_values(rules, now)
    disk_percents = load_disk_percents(rules)
    state_query = select(AlertState).where(AlertState.rule_id.in_([rule.id for rule in rules]))
    states = {
        (state.rule_id, state.resource_id): state
        for state in session.scalars(state_query.execution_options(populate_existing=True))
    }
    events: list[AlertEvent] = []
    for rule in rules:
        comparison = COMPARISONS[rule.operator]
        for target in list_targets(rule, values_by_id, values_by_account):
            value = get_value(rule.metric, target, disk_percents)
            is_beyond = value is not None and comparison(value, rule.threshold)
            state = states.get((rule.id, target.id))
            if state is None:
                if value is not None and not is_beyond:
                    continue
                state = AlertState(rule_id=rule.id, resource_id=target.id, status="ok")
                session.add(state)
            kind = update_state(state, rule, value, is_beyond, now)
            if kind:
                events.append(make_event(rule, target, kind, value))
    add_notifications(events)
    report_firing(events, rules)
    record_activity(events, rules)
    return rules[-1].id


def list_targets(rule: Row, values_by_id: dict[str, Row], values_by_account: dict[str, list[Row]]) -> list[Row]:
    """Return the instances that the rule watches. An instance that was transferred is its owner's no longer."""
    if rule.resource_id is None:
        return values_by_account[rule.account_id]
    target = values_by_id.get(rule.resource_id)
    return [target] if target and target.account_id == rule.account_id else []


def load_values(rules: Sequence[Row], now: datetime) -> tuple[dict[str, Row], dict[str, list[Row]]]:
    """Return the averages of the last minute, by instance id, and by account for rules that watch all."""
    seconds = now.timestamp()
    slots = [compute_slot(FINEST_STEP, seconds - age)["slot"] for age in range(0, VALUE_SECONDS + 1, FINEST_STEP)]
    account_ids = {rule.account_id for rule in rules if rule.resource_id is None}
    ids = {rule.resource_id for rule in rules if rule.resource_id is not None}
    is_fresh = and_(
        samples.instance_id == Instance.id,
        samples.step == FINEST_STEP,
        samples.slot.in_(slots),
        samples.at > seconds - VALUE_SECONDS,
        samples.at <= seconds,
    )
    averages = [func.avg(samples[name]).label(name) for name in METRIC_NAMES]
    query = (
        select(Instance.id, Instance.account_id, Instance.display_name, Instance.ram, *averages)
        .outerjoin(InstanceMetric, is_fresh)
        .where(or_(Instance.id.in_(ids), Instance.account_id.in_(account_ids)))
        .group_by(Instance.id)
        .order_by(Instance.id)
    )
    by_id: dict[str, Row] = {}
    by_account: dict[str, list[Row]] = defaultdict(list)
    for row in session.execute(query):
        by_id[row.id] = row
        by_account[row.account_id].append(row)
    return by_id, by_account


def load_disk_percents(rules: Sequence[Row]) -> dict[str, float | None]:
    """Return how full the file systems of instances are, by instance id, if one of the rules watches that."""
    disk_rules = [rule for rule in rules if rule.metric == DISK_METRIC]
    if not disk_rules:
        return {}
    account_ids = {rule.account_id for rule in disk_rules if rule.resource_id is None}
    ids = {rule.resource_id for rule in disk_rules}
    query = select(GuestInfo.instance_id, GuestInfo.filesystems).join(Instance, is_current_report())
    query = query.where(or_(Instance.id.in_(ids), Instance.account_id.in_(account_ids)))
    return {row.instance_id: get_disk_percent(row) for row in session.execute(query)}


def get_value(metric: str, target: Row, disk_percents: dict[str, float | None]) -> float | None:
    """Return the value, or None when there is none. A guest's last report does not count while it is not measured."""
    if metric == DISK_METRIC:
        return disk_percents.get(target.id) if target.cpu_percent is not None else None
    column = COLUMN_BY_METRIC.get(metric, metric)
    value = getattr(target, column)
    if value is None or column != MEMORY_COLUMN:
        return value
    return min(100.0, 100 * value / target.ram)


def update_state(state: AlertState, rule: Row, value: float | None, is_beyond: bool, now: datetime) -> str | None:
    """Update the state and return the kind of what happened, or None.

    The status changes when the values have called for it for the rule's duration; a gap in the values begins it anew.
    """
    if value is None:
        state.no_data_since = state.no_data_since or now
        state.changing_since = None
        return None
    state.no_data_since = None
    if is_beyond == (state.status == "firing"):
        state.changing_since = None
        if state.status == "ok":
            forget(state)
            return None
        return remind(state, rule, now)
    state.changing_since = state.changing_since or now
    if now - state.changing_since < timedelta(seconds=rule.duration) - INTERVAL_TOLERANCE:
        return None
    if not is_beyond:
        forget(state)
        return "resolved"
    state.status, state.value, state.changing_since = "firing", value, None
    state.fired_at = state.notified_at = now
    return "firing"


def forget(state: AlertState) -> None:
    """Delete the state: no row means values within the limit."""
    if state in session.new:
        session.expunge(state)
    else:
        session.delete(state)


def remind(state: AlertState, rule: Row, now: datetime) -> str | None:
    if not rule.reminder_interval or state.acknowledged_at or state.notified_at is None:
        return None
    if now - state.notified_at < timedelta(seconds=rule.reminder_interval) - INTERVAL_TOLERANCE:
        return None
    state.notified_at = now
    return "reminder"


def make_event(rule: Row, target: Row, kind: str, value: float | None) -> AlertEvent:
    return AlertEvent(
        id=generate_id(),
        rule_id=rule.id,
        resource_id=target.id,
        resource_name=target.display_name,
        kind=kind,
        value=value,
    )


def add_notifications(events: list[AlertEvent]) -> None:
    """Record the events, each with a notification for every enabled channel of its rule."""
    if not events:
        session.flush()
        return
    session.add_all(events)
    session.flush()
    channel_ids = defaultdict(list)
    query = (
        select(alert_rule_channels.c.rule_id, NotificationChannel.id)
        .join(NotificationChannel, NotificationChannel.id == alert_rule_channels.c.channel_id)
        .where(NotificationChannel.enabled, alert_rule_channels.c.rule_id.in_({event.rule_id for event in events}))
        .with_for_update(read=True, key_share=True, of=NotificationChannel)
    )
    for rule_id, channel_id in session.execute(query):
        channel_ids[rule_id].append(channel_id)
    session.add_all(make_notifications(events, channel_ids))
    session.flush()


def report_firing(events: list[AlertEvent], rules: Sequence[Row]) -> None:
    """Record messages in the inboxes of those who may see the resources of alerts that began."""
    rules_by_id = {rule.id: rule for rule in rules}
    firing = [(event, rules_by_id[event.rule_id]) for event in events if event.kind == "firing"]
    inbox.record([build_alert_report(event, rule.account_id, rule.name) for event, rule in firing])


def record_activity(events: list[AlertEvent], rules: Sequence[Row]) -> None:
    """Record the beginnings and ends of alerts as events of their instances. Webhooks do not get them."""
    rules_by_id = {rule.id: rule for rule in rules}
    for event in events:
        if event.kind in ACTIVITY_KINDS:
            rule = rules_by_id[event.rule_id]
            target = ActivityTarget(event.resource_id, rule.account_id)
            activity.record(
                f"alert.{event.kind}", ALERT_EVENT, target, actor="system", rule=rule.name, alert_rule_id=rule.id
            )


def make_notifications(events: list[AlertEvent], channel_ids: dict[str, list[Any]]) -> Iterator[AlertNotification]:
    for event in events:
        for channel_id in channel_ids.get(event.rule_id, ()):
            yield AlertNotification(event_id=event.id, channel_id=channel_id, due_at=clock.now())
