"""Everybody's webhook subscriptions and deliveries, for operators (requirement 12)."""

import pytest

from panel.core.db import session
from tests.webhooks.api.conftest import SECRET, UNKNOWN, delivered

pytestmark = pytest.mark.usefixtures("unlimited")
LIST, ITEM = "/api/v1/webhook-subscriptions", "/api/v1/webhook-subscription"


def listed(answer):
    assert answer.status_code == 200, answer.json
    assert SECRET not in answer.text
    return [row["id"] for row in answer.json["data"]]


def test_operators_list_the_subscriptions_of_all_accounts(make, as_, cast):
    """Requirement 12: without secrets, filtered by account, name and address."""
    mine, theirs = make(name="Stock"), make("outsider", url="https://1.1.1.1/elsewhere")
    answer = as_("admin", "GET", LIST)
    assert listed(answer) == [theirs["id"], mine["id"]]
    assert answer.json["meta"]["total"] == 2
    row = answer.json["data"][1]
    facts = {"user_id": cast.owner.id, "disabled_at": None, "created_at": row["created_at"]}
    assert row == {**mine, **facts}
    assert listed(as_("admin", "GET", f"{LIST}?user_id={cast.outsider.id}")) == [theirs["id"]]
    assert listed(as_("admin", "GET", f"{LIST}?search=stock")) == [mine["id"]]
    assert listed(as_("admin", "GET", f"{LIST}?search=elsewhere")) == [theirs["id"]]
    assert listed(as_("admin", "GET", f"{LIST}?search=%25")) == []
    assert as_("admin", "GET", f"{ITEM}/{mine['id']}").json["data"] == row


def test_operators_list_the_deliveries_of_a_subscription(make, as_):
    """Requirement 12: as their customer sees them."""
    made = make()
    tries = [
        {"id": UNKNOWN, "at": "2026-01-02T03:04:05+00:00", "code": 204, "duration_ms": 1, "error": None, "body": ""}
    ]
    rows = [delivered(made["id"]), delivered(made["id"], tries=tries)]
    answer = as_("admin", "GET", f"{ITEM}/{made['id']}/deliveries")
    assert listed(answer) == [row.id for row in rows[::-1]]
    assert answer.json["data"] == as_("owner", "GET", f"/api/webhook-subscription/{made['id']}/deliveries").json["data"]
    assert listed(as_("admin", "GET", f"{ITEM}/{made['id']}/deliveries?attempt={UNKNOWN}")) == [rows[1].id]


def test_what_does_not_exist(as_):
    for path in (f"{ITEM}/{UNKNOWN}", f"{ITEM}/{UNKNOWN}/deliveries"):
        answer = as_("admin", "GET", path)
        assert (answer.status_code, answer.json["message"]) == (404, "No such webhook subscription.")


def test_customers_have_no_operators_lists(make, as_):
    made = make()
    for path in (LIST, f"{ITEM}/{made['id']}", f"{ITEM}/{made['id']}/deliveries"):
        assert as_("owner", "GET", path).status_code in (401, 403)


def test_a_list_costs_the_same_however_long_it_is(make, as_, queries):
    def asked():
        session.expire_all()
        queries.clear()
        as_("admin", "GET", LIST)
        return len(queries)

    make()
    asked()
    few = asked()
    for _ in range(4):
        make()
    assert asked() == few
