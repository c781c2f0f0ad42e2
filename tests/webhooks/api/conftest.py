"""Webhook subscriptions on the customers' API (specification 2.4, 4.6, 6.1, 8)."""

import pytest

from panel.core.db import session
from panel.models import Event, WebhookDelivery, WebhookSubscription
from panel.schemas.webhooks import INSTANCE_RESOURCE

WEBHOOK_SECRET = "correct horse battery"

SUBSCRIPTION_BODY = {
    "name": "Inventory",
    "url": "https://1.1.1.1/hook",
    "secret": WEBHOOK_SECRET,
    "event_kinds": ["instance.created"],
}

UNKNOWN_ID = "0199c0a8-0000-7000-8000-000000000000"

SUBSCRIPTIONS_PATH = "/api/webhook-subscriptions"


def item_path(subscription, *rest):
    return "/".join((f"/api/webhook-subscription/{subscription}", *rest))


@pytest.fixture
def create_subscription(api_as):
    """A subscription of the owner, as the API shows it."""

    def made(who="owner", **facts):
        answer = api_as(who, "POST", SUBSCRIPTIONS_PATH, json={**SUBSCRIPTION_BODY, **facts})
        assert answer.status_code == 201, answer.json
        return answer.json["webhook_subscription"]

    return made


@pytest.fixture
def refused_field(api_as):
    """Sends a body that must be refused; returns what is said of a field."""

    def refused(field, path=SUBSCRIPTIONS_PATH, method="POST", **facts):
        body = {**(SUBSCRIPTION_BODY if method == "POST" else {}), **facts}
        answer = api_as("owner", method, path, json={name: value for name, value in body.items() if value is not ...})
        assert answer.status_code == 422, answer.json
        assert WEBHOOK_SECRET not in answer.text
        named = [name for name in answer.json["errors"] if name.partition(".")[0] == field]
        assert named, answer.json
        return answer.json["errors"][named[0]][0]

    return refused


def add_finished_delivery(subscription, **facts):
    """A delivery that is over, of an event of its own."""
    row = session.get(WebhookSubscription, subscription)
    event = Event(
        account_id=row.account_id,
        kind="instance.created",
        resource_type=INSTANCE_RESOURCE,
        resource_id=UNKNOWN_ID,
        snapshot={},
    )
    session.add(event)
    session.flush()
    known = {"status": "delivered", "attempts": 1, "response_code": 204, "duration_ms": 84}
    made = WebhookDelivery(
        account_id=row.account_id, subscription=row, event=event, event_kind=event.kind, **{**known, **facts}
    )
    session.add(made)
    session.commit()
    return made
