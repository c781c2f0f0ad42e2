"""The deliveries of a webhook subscription, by the API."""

import pytest
from sqlalchemy import func, select

from panel.core import clock
from panel.core.db import new_id, session
from panel.models import Event, Instance, WebhookDelivery
from tests.webhooks.api.conftest import SECRET, UNKNOWN, delivered, item

pytestmark = pytest.mark.usefixtures("unlimited")


def test_deliveries(make, as_):
    """WHK-55, DLV-39, DLV-40"""
    made = make()
    rows = [
        delivered(made["id"]),
        delivered(made["id"], status="pending_retry", response_code=None, error="Nobody answered.", attempts=2),
        delivered(made["id"], status="failed_permanent", response_code=500, attempts=5),
        delivered(made["id"], status="pending", response_code=None, duration_ms=None, attempts=0),
    ]
    answer = as_("owner", "GET", item(made["id"], "deliveries")).json
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
    assert len(as_("owner", "GET", item(made["id"], "deliveries?per_page=2&page=2")).json["data"]) == 2


def test_a_test_is_made_up_and_in_no_history(make, as_):
    made = make(enabled=False)
    before = session.scalar(select(func.count()).select_from(Event))
    answer = as_("owner", "POST", item(made["id"], "test"), json={"kind": "pool.created.scale_failed"})
    assert answer.status_code == 202
    row = answer.json["delivery"]
    assert (row["status"], row["test"], row["event_id"], row["attempts"]) == ("pending", True, None, 0)
    assert row["event_kind"] == "pool.created.scale_failed"
    assert as_("owner", "POST", item(made["id"], "test")).json["delivery"]["event_kind"] == "instance.created"
    assert session.scalar(select(func.count()).select_from(Event)) == before
    for kind in ("*", "nosuch", None, 1, ["instance.created"]):
        assert as_("owner", "POST", item(made["id"], "test"), json={"kind": kind}).status_code == 422


def test_send_again(make, as_):
    made = make()
    row = delivered(made["id"], status="failed_permanent", attempts=5)
    path = item(made["id"], "delivery", row.id, "redeliver")
    answer = as_("owner", "POST", path)
    again = answer.json["delivery"]
    assert (answer.status_code, again["id"], again["status"], again["attempts"]) == (202, row.id, "pending", 0)
    assert session.get(WebhookDelivery, row.id).due_at <= clock.now()
    assert (as_("owner", "POST", path).status_code, as_("owner", "POST", path).json["message"]) == (
        409,
        "It is still under way.",
    )
    session.get(WebhookDelivery, row.id).status = "delivered"
    as_("owner", "PATCH", item(made["id"]), json={"enabled": False})
    refused = as_("owner", "POST", path)
    assert (refused.status_code, refused.json["message"]) == (409, "The subscription is off. Enable it first.")
    assert as_("owner", "POST", item(make()["id"], "delivery", row.id, "redeliver")).status_code == 404


def test_a_real_instance_reaches_a_subscription_of_its_account_only(make, as_, cast, work):
    """WHK-89, from the order to the delivery that waits"""
    mine, others = make(event_kinds=["*"]), make("outsider", event_kinds=["*"])
    instance = cast.instance()
    work()
    assert session.get(Instance, instance.id)
    rows = as_("owner", "GET", item(mine["id"], "deliveries")).json["data"]
    assert [(row["event_kind"], row["status"]) for row in rows] == [("instance.created", "pending")]
    assert as_("outsider", "GET", item(others["id"], "deliveries")).json["total"] == 0


def tried(code=None, error=None, **facts):
    """An attempt as a delivery remembers it."""
    at = "2026-01-02T03:04:05.678901+00:00"
    return {"id": new_id(), "at": at, "code": code, "duration_ms": 84, "error": error, "body": SECRET, **facts}


def test_an_attempt_is_found_by_its_delivery_id(make, as_):
    """WHK-55, finding B7: the receiver logs X-Hypervisor-Delivery, which names an attempt."""
    made, other = make(), make()
    failed, arrived = tried(500, "The receiver answered 500."), tried(204)
    row = delivered(made["id"], attempts=2, tries=[failed, arrived])
    delivered(made["id"], tries=[tried(204)])
    for attempt in (failed, arrived):
        answer = as_("owner", "GET", item(made["id"], f"deliveries?attempt={attempt['id']}")).json
        assert [each["id"] for each in answer["data"]] == [row.id]
        assert as_("owner", "GET", item(other["id"], f"deliveries?attempt={attempt['id']}")).json["total"] == 0
    assert as_("owner", "GET", item(made["id"], f"deliveries?attempt={UNKNOWN}")).json["total"] == 0
    refused = as_("owner", "GET", item(made["id"], "deliveries?attempt=%25"))
    assert (refused.status_code, list(refused.json["errors"])) == (422, ["attempt"])


def test_attempts_of_a_delivery(make, as_):
    """WHK-55, DLV-40, finding B7: each with status, response code and duration."""
    made, other = make(), make()
    failed, silent, arrived = tried(500, "It answered 500."), tried(None, "It was silent."), tried(204)
    row = delivered(made["id"], attempts=3, tries=[failed, silent, arrived])
    answer = as_("owner", "GET", item(made["id"], "delivery", row.id, "attempts"))
    assert SECRET not in answer.text
    common = {"at": "2026-01-02T03:04:05.678901Z", "duration_ms": 84}
    assert answer.json["data"] == [
        {"id": arrived["id"], "status": "delivered", "response_code": 204, "error": None, **common},
        {"id": silent["id"], "status": "failed", "response_code": None, "error": "It was silent.", **common},
        {"id": failed["id"], "status": "failed", "response_code": 500, "error": "It answered 500.", **common},
    ]
    for path in (item(made["id"], "delivery", UNKNOWN, "attempts"), item(other["id"], "delivery", row.id, "attempts")):
        assert as_("owner", "GET", path).status_code == 404
    assert as_("outsider", "GET", item(made["id"], "delivery", row.id, "attempts")).status_code == 404
