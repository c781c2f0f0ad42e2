"""Paths and bodies of webhook subscriptions, and finished deliveries."""

from panel.core.db import session
from panel.models import Event, WebhookDelivery, WebhookSubscription
from panel.schemas.webhooks import INSTANCE_RESOURCE
from tests.support.cast import UNKNOWN_ID

WEBHOOK_SECRET = "correct horse battery"

SUBSCRIPTION_BODY = {
    "name": "Inventory",
    "url": "https://1.1.1.1/hook",
    "secret": WEBHOOK_SECRET,
    "event_kinds": ["instance.created"],
}


SUBSCRIPTIONS_PATH = "/api/webhook-subscriptions"


def build_subscription_path(subscription_id, *parts):
    return "/".join((f"/api/webhook-subscription/{subscription_id}", *parts))


def add_finished_delivery(subscription_id, **values):
    """Add a delivery that has ended, with its own event."""
    row = session.get(WebhookSubscription, subscription_id)
    event = Event(
        account_id=row.account_id,
        kind="instance.created",
        resource_type=INSTANCE_RESOURCE,
        resource_id=UNKNOWN_ID,
        snapshot={},
    )
    session.add(event)
    session.flush()
    defaults = {"status": "delivered", "attempts": 1, "response_code": 204, "duration_ms": 84}
    delivery = WebhookDelivery(
        account_id=row.account_id, subscription=row, event=event, event_kind=event.kind, **{**defaults, **values}
    )
    session.add(delivery)
    session.commit()
    return delivery
