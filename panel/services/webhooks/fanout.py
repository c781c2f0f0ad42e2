"""Making deliveries of events: one for each subscription that wants to know (specification 6.1, 6.2)."""

from collections import defaultdict

from sqlalchemy import insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from panel.core import clock
from panel.core.db import session
from panel.models import Event, WebhookDelivery, WebhookSubscription
from panel.schemas.webhooks import ALL_KINDS, CLUSTER_RESOURCE, INSTANCE_RESOURCE

MAX_EVENTS_PER_RUN = 200
"""Events of one type of resource that are looked at in one run."""

INSERT_BY_DIALECT = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}

EVENT_COLUMNS = (Event.id, Event.account_id, Event.kind, Event.resource_type, Event.resource_id, Event.created_at)


def fan_out():
    """Makes the deliveries of events that have none yet, oldest first, and says of how many. Two runs at a time wait
    for each other, so that a delivery of a later event is never there before one of an earlier event."""
    found = [
        event for resource_type in (INSTANCE_RESOURCE, CLUSTER_RESOURCE) for event in lock_waiting_events(resource_type)
    ]
    if not found:
        return 0
    listening = lock_subscriptions({event.account_id for event in found})
    rows = [
        make_delivery_row(event, each)
        for event in found
        for each in listening[event.account_id]
        if is_wanted(each, event)
    ]
    if rows:
        table = INSERT_BY_DIALECT.get(session.get_bind().dialect.name, insert)(WebhookDelivery)
        session.execute(table.on_conflict_do_nothing(), rows)
    mine = update(Event).where(Event.id.in_([event.id for event in found]))
    session.execute(mine.values(spread_at=clock.now()).execution_options(synchronize_session=False))
    return len(found)


def lock_waiting_events(resource_type):
    unspread = select(*EVENT_COLUMNS).where(Event.spread_at.is_(None), Event.resource_type == resource_type)
    return session.execute(unspread.order_by(Event.id).limit(MAX_EVENTS_PER_RUN).with_for_update()).all()


def lock_subscriptions(account_ids):
    """Those that are on, by account. They stay until the transaction ends."""
    query = select(WebhookSubscription).where(WebhookSubscription.account_id.in_(account_ids))
    on = query.where(WebhookSubscription.enabled).order_by(WebhookSubscription.id)
    locked = on.with_for_update(read=True, key_share=True).execution_options(populate_existing=True)
    by_account = defaultdict(list)
    for each in session.scalars(locked):
        by_account[each.account_id].append(each)
    return by_account


def is_wanted(subscription, event):
    """What happened before somebody subscribed is not told. Only clusters are filtered by a filter of clusters."""
    if subscription.created_at > event.created_at or not {ALL_KINDS, event.kind}.intersection(subscription.event_kinds):
        return False
    filtered = subscription.cluster_filter is not None and event.resource_type == CLUSTER_RESOURCE
    return not filtered or event.resource_id in subscription.cluster_filter


def make_delivery_row(event, subscription):
    return {
        "account_id": event.account_id,
        "subscription_id": subscription.id,
        "event_id": event.id,
        "event_kind": event.kind,
    }
