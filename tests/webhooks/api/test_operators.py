"""Everybody's webhook subscriptions and deliveries, for operators (requirement 12)."""

import pytest

from panel.core.db import session
from tests.webhooks.api.conftest import UNKNOWN_ID, WEBHOOK_SECRET, add_finished_delivery

pytestmark = pytest.mark.usefixtures("unlimited")
LIST, ITEM = "/api/v1/webhook-subscriptions", "/api/v1/webhook-subscription"


def listed_ids(answer):
    assert answer.status_code == 200, answer.json
    assert WEBHOOK_SECRET not in answer.text
    return [row["id"] for row in answer.json["data"]]


def test_operators_list_the_subscriptions_of_all_accounts(create_subscription, api_as, cast):
    """Requirement 12: without secrets, filtered by account, name and address."""
    mine, theirs = create_subscription(name="Stock"), create_subscription("outsider", url="https://1.1.1.1/elsewhere")
    answer = api_as("admin", "GET", LIST)
    assert listed_ids(answer) == [theirs["id"], mine["id"]]
    assert answer.json["meta"]["total"] == 2
    row = answer.json["data"][1]
    facts = {"user_id": cast.owner.id, "disabled_at": None, "created_at": row["created_at"]}
    assert row == {**mine, **facts}
    assert listed_ids(api_as("admin", "GET", f"{LIST}?user_id={cast.outsider.id}")) == [theirs["id"]]
    assert listed_ids(api_as("admin", "GET", f"{LIST}?search=stock")) == [mine["id"]]
    assert listed_ids(api_as("admin", "GET", f"{LIST}?search=elsewhere")) == [theirs["id"]]
    assert listed_ids(api_as("admin", "GET", f"{LIST}?search=%25")) == []
    assert api_as("admin", "GET", f"{ITEM}/{mine['id']}").json["data"] == row


def test_operators_list_the_deliveries_of_a_subscription(create_subscription, api_as):
    """Requirement 12: as their customer sees them."""
    made = create_subscription()
    tries = [
        {"id": UNKNOWN_ID, "at": "2026-01-02T03:04:05+00:00", "code": 204, "duration_ms": 1, "error": None, "body": ""}
    ]
    rows = [add_finished_delivery(made["id"]), add_finished_delivery(made["id"], tries=tries)]
    answer = api_as("admin", "GET", f"{ITEM}/{made['id']}/deliveries")
    assert listed_ids(answer) == [row.id for row in rows[::-1]]
    assert (
        answer.json["data"] == api_as("owner", "GET", f"/api/webhook-subscription/{made['id']}/deliveries").json["data"]
    )
    assert listed_ids(api_as("admin", "GET", f"{ITEM}/{made['id']}/deliveries?attempt={UNKNOWN_ID}")) == [rows[1].id]


def test_unknown_webhook_subscription_is_404(api_as):
    for path in (f"{ITEM}/{UNKNOWN_ID}", f"{ITEM}/{UNKNOWN_ID}/deliveries"):
        answer = api_as("admin", "GET", path)
        assert (answer.status_code, answer.json["message"]) == (404, "No such webhook subscription.")


def test_customers_have_no_operators_lists(create_subscription, api_as):
    made = create_subscription()
    for path in (LIST, f"{ITEM}/{made['id']}", f"{ITEM}/{made['id']}/deliveries"):
        assert api_as("owner", "GET", path).status_code in (401, 403)


def test_a_list_costs_the_same_however_long_it_is(create_subscription, api_as, queries):
    def asked():
        session.expire_all()
        queries.clear()
        api_as("admin", "GET", LIST)
        return len(queries)

    create_subscription()
    asked()
    few = asked()
    for _ in range(4):
        create_subscription()
    assert asked() == few
