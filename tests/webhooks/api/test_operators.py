"""Webhook subscriptions and deliveries of all accounts, for operators."""

import pytest

from panel.core.db import session
from tests.support.cast import UNKNOWN_ID
from tests.webhooks.api.subscriptions import WEBHOOK_SECRET, add_finished_delivery

pytestmark = pytest.mark.usefixtures("unlimited_rates")
LIST_PATH, ITEM_PATH = "/api/v1/webhook-subscriptions", "/api/v1/webhook-subscription"


def list_ids(answer):
    assert answer.status_code == 200, answer.json
    assert WEBHOOK_SECRET not in answer.text
    return [row["id"] for row in answer.json["data"]]


def test_admin_api_lists_subscriptions_of_all_accounts(create_subscription, api_as, cast):
    """Without secrets, filtered by account, name and address."""
    first, second = create_subscription(name="Stock"), create_subscription("outsider", url="https://1.1.1.1/elsewhere")
    answer = api_as("admin", "GET", LIST_PATH)
    assert list_ids(answer) == [second["id"], first["id"]]
    assert answer.json["meta"]["total"] == 2
    row = answer.json["data"][1]
    admin_fields = {"user_id": cast.owner.id, "disabled_at": None, "created_at": row["created_at"]}
    assert row == {**first, **admin_fields}
    assert list_ids(api_as("admin", "GET", f"{LIST_PATH}?user_id={cast.outsider.id}")) == [second["id"]]
    assert list_ids(api_as("admin", "GET", f"{LIST_PATH}?search=stock")) == [first["id"]]
    assert list_ids(api_as("admin", "GET", f"{LIST_PATH}?search=elsewhere")) == [second["id"]]
    assert list_ids(api_as("admin", "GET", f"{LIST_PATH}?search=%25")) == []
    assert api_as("admin", "GET", f"{ITEM_PATH}/{first['id']}").json["data"] == row


def test_admin_api_lists_deliveries_of_subscription(create_subscription, api_as):
    """With the fields that customers see."""
    subscription = create_subscription()
    tries = [
        {"id": UNKNOWN_ID, "at": "2026-01-02T03:04:05+00:00", "code": 204, "duration_ms": 1, "error": None, "body": ""}
    ]
    rows = [add_finished_delivery(subscription["id"]), add_finished_delivery(subscription["id"], tries=tries)]
    answer = api_as("admin", "GET", f"{ITEM_PATH}/{subscription['id']}/deliveries")
    assert list_ids(answer) == [row.id for row in rows[::-1]]
    assert (
        answer.json["data"]
        == api_as("owner", "GET", f"/api/webhook-subscription/{subscription['id']}/deliveries").json["data"]
    )
    assert list_ids(api_as("admin", "GET", f"{ITEM_PATH}/{subscription['id']}/deliveries?attempt={UNKNOWN_ID}")) == [
        rows[1].id
    ]


def test_unknown_webhook_subscription_is_404(api_as):
    for path in (f"{ITEM_PATH}/{UNKNOWN_ID}", f"{ITEM_PATH}/{UNKNOWN_ID}/deliveries"):
        answer = api_as("admin", "GET", path)
        assert (answer.status_code, answer.json["message"]) == (404, "No such webhook subscription.")


def test_customer_token_cannot_use_admin_webhook_lists(create_subscription, api_as):
    subscription = create_subscription()
    for path in (LIST_PATH, f"{ITEM_PATH}/{subscription['id']}", f"{ITEM_PATH}/{subscription['id']}/deliveries"):
        assert api_as("owner", "GET", path).status_code in (401, 403)


def test_admin_subscription_list_query_count_is_constant(create_subscription, api_as, queries):
    def count_queries():
        session.expire_all()
        queries.clear()
        api_as("admin", "GET", LIST_PATH)
        return len(queries)

    create_subscription()
    count_queries()
    expected_count = count_queries()
    for _ in range(4):
        create_subscription()
    assert count_queries() == expected_count
