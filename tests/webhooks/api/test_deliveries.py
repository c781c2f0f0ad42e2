"""The deliveries of a webhook subscription by the API."""

import pytest
from sqlalchemy import func, select

from panel.core import clock
from panel.core.db import generate_id, session
from panel.models import Event, Instance, WebhookDelivery
from tests.support.cast import UNKNOWN_ID
from tests.webhooks.api.subscriptions import WEBHOOK_SECRET, add_finished_delivery, build_subscription_path

pytestmark = pytest.mark.usefixtures("unlimited_rates")


def test_webhook_deliveries_are_listed(create_subscription, api_as):
    """WHK-55, DLV-39, DLV-40"""
    subscription = create_subscription()
    rows = [
        add_finished_delivery(subscription["id"]),
        add_finished_delivery(
            subscription["id"], status="pending_retry", response_code=None, error="Nobody answered.", attempts=2
        ),
        add_finished_delivery(subscription["id"], status="failed_permanent", response_code=500, attempts=5),
        add_finished_delivery(subscription["id"], status="pending", response_code=None, duration_ms=None, attempts=0),
    ]
    answer = api_as("owner", "GET", build_subscription_path(subscription["id"], "deliveries")).json
    assert answer["total"] == 4
    assert [row["id"] for row in answer["data"]] == [row.id for row in rows[::-1]]
    assert answer["data"][-1] == {
        "id": rows[0].id,
        "event_id": rows[0].event_id,
        "event_kind": "instance.created",
        "status": "delivered",
        "attempts": 1,
        "response_code": 204,
        "duration_ms": 84,
        "error": None,
        "test": False,
        "created_at": answer["data"][-1]["created_at"],
    }
    assert [row["response_code"] for row in answer["data"]] == [None, 500, None, 204]
    assert answer["data"][2]["error"] == "Nobody answered."
    assert (
        len(
            api_as("owner", "GET", build_subscription_path(subscription["id"], "deliveries?per_page=2&page=2")).json[
                "data"
            ]
        )
        == 2
    )


def test_test_delivery_records_no_event(create_subscription, api_as):
    subscription = create_subscription(enabled=False)
    before = session.scalar(select(func.count()).select_from(Event))
    answer = api_as(
        "owner", "POST", build_subscription_path(subscription["id"], "test"), json={"kind": "pool.created.scale_failed"}
    )
    assert answer.status_code == 202
    row = answer.json["delivery"]
    assert (row["status"], row["test"], row["event_id"], row["attempts"]) == ("pending", True, None, 0)
    assert row["event_kind"] == "pool.created.scale_failed"
    assert (
        api_as("owner", "POST", build_subscription_path(subscription["id"], "test")).json["delivery"]["event_kind"]
        == "instance.created"
    )
    assert session.scalar(select(func.count()).select_from(Event)) == before
    for kind in ("*", "nosuch", None, 1, ["instance.created"]):
        assert (
            api_as(
                "owner", "POST", build_subscription_path(subscription["id"], "test"), json={"kind": kind}
            ).status_code
            == 422
        )


def test_webhook_delivery_is_resent(create_subscription, api_as):
    subscription = create_subscription()
    row = add_finished_delivery(subscription["id"], status="failed_permanent", attempts=5)
    path = build_subscription_path(subscription["id"], "delivery", row.id, "redeliver")
    answer = api_as("owner", "POST", path)
    delivery = answer.json["delivery"]
    assert (answer.status_code, delivery["id"], delivery["status"], delivery["attempts"]) == (202, row.id, "pending", 0)
    assert session.get(WebhookDelivery, row.id).due_at <= clock.now()
    assert (api_as("owner", "POST", path).status_code, api_as("owner", "POST", path).json["message"]) == (
        409,
        "It is still in progress.",
    )
    session.get(WebhookDelivery, row.id).status = "delivered"
    api_as("owner", "PATCH", build_subscription_path(subscription["id"]), json={"enabled": False})
    refused = api_as("owner", "POST", path)
    assert (refused.status_code, refused.json["message"]) == (409, "The subscription is off. Enable it first.")
    assert (
        api_as(
            "owner", "POST", build_subscription_path(create_subscription()["id"], "delivery", row.id, "redeliver")
        ).status_code
        == 404
    )


def test_instance_event_creates_delivery_only_for_its_account(create_subscription, api_as, cast, run_tasks):
    """WHK-89, from the new instance to the waiting delivery."""
    own_subscription, other_subscription = (
        create_subscription(event_kinds=["*"]),
        create_subscription("outsider", event_kinds=["*"]),
    )
    instance = cast.instance()
    run_tasks()
    assert session.get(Instance, instance.id)
    rows = api_as("owner", "GET", build_subscription_path(own_subscription["id"], "deliveries")).json["data"]
    assert [(row["event_kind"], row["status"]) for row in rows] == [("instance.created", "pending")]
    assert api_as("outsider", "GET", build_subscription_path(other_subscription["id"], "deliveries")).json["total"] == 0


def build_attempt(code=None, error=None, **values):
    """Return an attempt as a delivery stores it."""
    at = "2026-01-02T03:04:05.678901+00:00"
    return {
        "id": generate_id(),
        "at": at,
        "code": code,
        "duration_ms": 84,
        "error": error,
        "body": WEBHOOK_SECRET,
        **values,
    }


def test_deliveries_are_filtered_by_attempt_id(create_subscription, api_as):
    """WHK-55: the receiver logs X-Hypervisor-Delivery, which names an attempt."""
    subscription, other_subscription = create_subscription(), create_subscription()
    failed, delivered = build_attempt(500, "The receiver answered 500."), build_attempt(204)
    row = add_finished_delivery(subscription["id"], attempts=2, tries=[failed, delivered])
    add_finished_delivery(subscription["id"], tries=[build_attempt(204)])
    for attempt in (failed, delivered):
        answer = api_as(
            "owner", "GET", build_subscription_path(subscription["id"], f"deliveries?attempt={attempt['id']}")
        ).json
        assert [delivery["id"] for delivery in answer["data"]] == [row.id]
        assert (
            api_as(
                "owner", "GET", build_subscription_path(other_subscription["id"], f"deliveries?attempt={attempt['id']}")
            ).json["total"]
            == 0
        )
    assert (
        api_as("owner", "GET", build_subscription_path(subscription["id"], f"deliveries?attempt={UNKNOWN_ID}")).json[
            "total"
        ]
        == 0
    )
    refused = api_as("owner", "GET", build_subscription_path(subscription["id"], "deliveries?attempt=%25"))
    assert (refused.status_code, list(refused.json["errors"])) == (422, ["attempt"])


def test_delivery_attempts_are_listed(create_subscription, api_as):
    """WHK-55, DLV-40: each with status, response code and duration."""
    subscription, other_subscription = create_subscription(), create_subscription()
    failed, silent, delivered = (
        build_attempt(500, "It answered 500."),
        build_attempt(None, "It was silent."),
        build_attempt(204),
    )
    row = add_finished_delivery(subscription["id"], attempts=3, tries=[failed, silent, delivered])
    answer = api_as("owner", "GET", build_subscription_path(subscription["id"], "delivery", row.id, "attempts"))
    assert WEBHOOK_SECRET not in answer.text
    common = {"at": "2026-01-02T03:04:05.678901Z", "duration_ms": 84}
    assert answer.json["data"] == [
        {"id": delivered["id"], "status": "delivered", "response_code": 204, "error": None, **common},
        {"id": silent["id"], "status": "failed", "response_code": None, "error": "It was silent.", **common},
        {"id": failed["id"], "status": "failed", "response_code": 500, "error": "It answered 500.", **common},
    ]
    for path in (
        build_subscription_path(subscription["id"], "delivery", UNKNOWN_ID, "attempts"),
        build_subscription_path(other_subscription["id"], "delivery", row.id, "attempts"),
    ):
        assert api_as("owner", "GET", path).status_code == 404
    assert (
        api_as(
            "outsider", "GET", build_subscription_path(subscription["id"], "delivery", row.id, "attempts")
        ).status_code
        == 404
    )
