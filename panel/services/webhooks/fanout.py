"""Fan-out: a delivery of each event for every subscription that wants it (WHK-84 to WHK-89)."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlalchemy import Row, select, update
from sqlalchemy.dialects import postgresql, sqlite

from panel.core import clock
from panel.core.db import session, with_lock
from panel.models import Event, WebhookDelivery, WebhookSubscription
from panel.schemas.webhooks import ALL_KINDS, CLUSTER_RESOURCE, INSTANCE_RESOURCE

MAX_EVENTS_PER_RUN = 200
"""Maximum number of events of one resource type in one run."""

INSERT_BY_DIALECT: dict[str, Callable[..., sqlite.Insert | postgresql.Insert]] = {
    "sqlite": sqlite.insert,
    "postgresql": postgresql.insert,
}

EVENT_COLUMNS = (Event.id, Event.account_id, Event.kind, Event.resource_type, Event.resource_id, Event.created_at)


def fan_out() -> int:
    """Create the deliveries of events that have none yet, oldest first.

    Return the number of events. Concurrent runs wait for each other, so a delivery of a later event never exists before
    one of an earlier event.
    """
    events = [
        event for resource_type in (INSTANCE_RESOURCE, CLUSTER_RESOURCE) for event in lock_waiting_events(resource_type)
    ]
    if not events:
        return 0
    subscriptions = lock_subscriptions({event.account_id for event in events})
    rows = [
        make_delivery_row(event, subscription)
        for event in events
        for subscription in subscriptions[event.account_id]
        if is_wanted(subscription, event)
    ]
    if rows:
        insert = INSERT_BY_DIALECT[session.get_bind().dialect.name](WebhookDelivery)
        session.execute(insert.on_conflict_do_nothing(), rows)
    statement = update(Event).where(Event.id.in_([event.id for event in events]))
    session.execute(statement.values(fanned_out_at=clock.now()).execution_options(synchronize_session=False))
    return len(events)


def lock_waiting_events(resource_type: str) -> Sequence[Row]:
    query = select(*EVENT_COLUMNS).where(Event.fanned_out_at.is_(None), Event.resource_type == resource_type)
    return session.execute(query.order_by(Event.id).limit(MAX_EVENTS_PER_RUN).with_for_update()).all()


def lock_subscriptions(account_ids: Iterable[str | None]) -> dict[str, list[WebhookSubscription]]:
    """Return the enabled subscriptions by account, locked against deletion until the transaction ends."""
    query = select(WebhookSubscription).where(WebhookSubscription.account_id.in_(account_ids))
    enabled = query.where(WebhookSubscription.enabled).order_by(WebhookSubscription.id)
    locked = with_lock(enabled, read=True, key_share=True)
    by_account = defaultdict(list)
    for subscription in session.scalars(locked):
        by_account[subscription.account_id].append(subscription)
    return by_account


def is_wanted(subscription: WebhookSubscription, event: Row) -> bool:
    """Return whether the subscription gets the event.

    It gets none from before its creation; `cluster_filter` applies only to events of clusters.
    """
    if subscription.created_at > event.created_at or not {ALL_KINDS, event.kind}.intersection(subscription.event_kinds):
        return False
    if subscription.cluster_filter is None or event.resource_type != CLUSTER_RESOURCE:
        return True
    return event.resource_id in subscription.cluster_filter


def make_delivery_row(event: Row, subscription: WebhookSubscription) -> dict[str, Any]:
    return {
        "account_id": event.account_id,
        "subscription_id": subscription.id,
        "event_id": event.id,
        "event_kind": event.kind,
    }
