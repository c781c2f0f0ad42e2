"""Fixtures for webhook subscriptions on the customers' API (specification 2.4, 4.6, 6.1, 8)."""

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


def build_subscription_path(subscription_id, *parts):
    return "/".join((f"/api/webhook-subscription/{subscription_id}", *parts))


@pytest.fixture
def create_subscription(api_as):
    """Return a function that creates a subscription by the API and returns its JSON."""

    def create(who="owner", **changes):
        answer = api_as(who, "POST", SUBSCRIPTIONS_PATH, json={**SUBSCRIPTION_BODY, **changes})
        assert answer.status_code == 201, answer.json
        return answer.json["webhook_subscription"]

    return create


@pytest.fixture
def get_field_error(api_as):
    """Return a function that sends an invalid body and returns the error of a field."""

    def send_and_get_error(field, path=SUBSCRIPTIONS_PATH, method="POST", **changes):
        body = {**(SUBSCRIPTION_BODY if method == "POST" else {}), **changes}
        answer = api_as("owner", method, path, json={name: value for name, value in body.items() if value is not ...})
        assert answer.status_code == 422, answer.json
        assert WEBHOOK_SECRET not in answer.text
        names = [name for name in answer.json["errors"] if name.partition(".")[0] == field]
        assert names, answer.json
        return answer.json["errors"][names[0]][0]

    return send_and_get_error


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
