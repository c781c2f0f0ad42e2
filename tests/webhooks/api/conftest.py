"""Webhook subscriptions on the customers' API (specification 2.4, 4.6, 6.1, 8)."""

import pytest

from panel.core.db import session
from panel.models import Event, WebhookDelivery, WebhookSubscription
from panel.schemas.webhooks import INSTANCE

SECRET = "correct horse battery"

BODY = {"name": "Inventory", "url": "https://1.1.1.1/hook", "secret": SECRET, "event_kinds": ["instance.created"]}

UNKNOWN = "0199c0a8-0000-7000-8000-000000000000"

LIST = "/api/webhook-subscriptions"


def item(subscription, *rest):
    return "/".join((f"/api/webhook-subscription/{subscription}", *rest))


@pytest.fixture
def make(as_):
    """A subscription of the owner, as the API shows it."""

    def made(who="owner", **facts):
        answer = as_(who, "POST", LIST, json={**BODY, **facts})
        assert answer.status_code == 201, answer.json
        return answer.json["webhook_subscription"]

    return made


@pytest.fixture
def refuse(as_):
    """Sends a body that must be refused; returns what is said of a field."""

    def refused(field, path=LIST, method="POST", **facts):
        body = {**(BODY if method == "POST" else {}), **facts}
        answer = as_("owner", method, path, json={name: value for name, value in body.items() if value is not ...})
        assert answer.status_code == 422, answer.json
        assert SECRET not in answer.text
        named = [name for name in answer.json["errors"] if name.partition(".")[0] == field]
        assert named, answer.json
        return answer.json["errors"][named[0]][0]

    return refused


def delivered(subscription, **facts):
    """A delivery that is over, of an event of its own."""
    row = session.get(WebhookSubscription, subscription)
    event = Event(
        account_id=row.account_id, kind="instance.created", resource_type=INSTANCE, resource_id=UNKNOWN, snapshot={}
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
