"""Tests and repeats by hand, and what changes of a subscription mean for what is sent: with a receiver that listens."""

import json

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import AuditEntry, WebhookDelivery, WebhookSubscription
from panel.schemas.webhooks import CLUSTER_RESOURCE, EVENT_KINDS
from panel.services.webhooks.signing import sign_payload
from tests.webhooks.conftest import WEBHOOK_SECRET


@pytest.fixture
def call_webhook_api(api_as):
    def call(method, row, path="", **body):
        answer = api_as("owner", method, f"/api/webhook-subscription/{row.id}{path}", json=body)
        assert answer.status_code < 300, answer.json
        return answer.json

    return call


def failure_counts(row):
    row = session.get(WebhookSubscription, row.id)
    return row.consecutive_failures, row.last_delivery_status, row.enabled


@pytest.mark.parametrize("kind", EVENT_KINDS)
def test_a_test_is_signed_and_shaped_as_an_event_of_its_kind(
    call_webhook_api, subscribe, receiver, run_deliveries, kind
):
    """DLV-13, DLV-14, DLV-16, DLV-18, DLV-19: in tests too"""
    row = subscribe(event_kinds=["pool.created"])
    call_webhook_api("POST", row, "/test", kind=kind)
    run_deliveries()
    (post,) = receiver.posts
    body = json.loads(post.body)
    assert post.headers["X-Signature-256"] == sign_payload(post.body, WEBHOOK_SECRET)
    assert post.headers["X-Hypervisor-Event"] == body["event"]["kind"] == kind
    assert post.headers["X-Hypervisor-Event-Id"] == body["event"]["id"]
    assert body["event"]["data"] == {"test": True}
    if EVENT_KINDS[kind].resource == CLUSTER_RESOURCE:
        assert body["event"].keys() == {"id", "kind", "severity", "message", "data", "created_at"}
        assert body.keys() == {"event", "cluster"}
        assert body["cluster"].keys() == {"id", "name", "slug"}
    else:
        assert body["event"].keys() == {"id", "kind", "created_at", "data"}
        assert body.keys() == {"event", "instance"}
        assert body["instance"].keys() == {"id", "name", "hostname", "display_name", "status", "location"}


@pytest.mark.parametrize(("answer", "status"), [(200, "delivered"), (500, "failed_permanent")])
def test_a_test_is_tried_once_and_counts_for_nothing(
    call_webhook_api, subscribe, receiver, run_deliveries, advance_clock, answer, status
):
    """Also while the subscription is off."""
    row = subscribe(consecutive_failures=19, last_delivery_status="failed_permanent", enabled=False)
    row.disabled_at = clock.now()
    receiver.answer = answer
    call_webhook_api("POST", row, "/test")
    for _ in range(3):
        run_deliveries()
        advance_clock(hours=1)
    assert len(receiver.posts) == 1
    (made,) = call_webhook_api("GET", row, "/deliveries")["data"]
    assert (made["status"], made["attempts"], made["response_code"]) == (status, 1, answer)
    assert failure_counts(row) == (19, "failed_permanent", False)


def test_a_delivery_that_is_sent_again_is_the_same_event(call_webhook_api, subscribe, receiver, run_deliveries, cast):
    """DLV-04, DLV-06: and has all its attempts anew."""
    row = subscribe()
    cast.instance()
    run_deliveries()
    (made,) = call_webhook_api("GET", row, "/deliveries")["data"]
    assert made["status"] == "delivered"
    call_webhook_api("POST", row, f"/delivery/{made['id']}/redeliver")
    receiver.answer = 503
    run_deliveries()
    (again,) = call_webhook_api("GET", row, "/deliveries")["data"]
    assert (again["status"], again["attempts"]) == ("pending_retry", 1)
    first, second = receiver.posts
    assert first.body == second.body
    assert first.headers["X-Hypervisor-Event-Id"] == second.headers["X-Hypervisor-Event-Id"] == made["event_id"]
    assert first.headers["X-Hypervisor-Delivery"] != second.headers["X-Hypervisor-Delivery"]
    assert [each["code"] for each in session.get(WebhookDelivery, made["id"]).tries] == [204, 503]


def test_the_secret_of_that_moment_signs(call_webhook_api, subscribe, receiver, run_deliveries, cast):
    """WHK-38, WHK-44, WHK-45: through the front door"""
    row = subscribe()
    assert failure_counts(row)[1] is None
    call_webhook_api("PATCH", row, name="new")
    cast.instance()
    run_deliveries()
    assert failure_counts(row)[1] == "delivered"
    call_webhook_api("PATCH", row, secret="another one of 16")
    cast.instance()
    run_deliveries()
    old, new = receiver.posts
    assert old.headers["X-Signature-256"] == sign_payload(old.body, WEBHOOK_SECRET)
    assert new.headers["X-Signature-256"] == sign_payload(new.body, "another one of 16")
    assert new.headers["X-Signature-256"] != sign_payload(new.body, WEBHOOK_SECRET)


def test_a_disabled_or_deleted_subscription_gets_no_test_event(
    call_webhook_api, subscribe, receiver, run_deliveries, cast, deliveries
):
    """WHK-36, WHK-49, DLV-36, DLV-37"""
    off, gone = subscribe(enabled=False), subscribe()
    cast.instance()
    call_webhook_api("DELETE", gone)
    run_deliveries()
    assert (receiver.posts, deliveries()) == ([], [])
    call_webhook_api("PATCH", off, enabled=True)
    run_deliveries()
    assert receiver.posts == []
    cast.instance()
    run_deliveries()
    assert len(receiver.posts) == 1


def test_the_audit_log_tells_who_did_it_and_no_secret(call_webhook_api, subscribe):
    row = subscribe()
    call_webhook_api("PATCH", row, secret="another one of 16")
    call_webhook_api("POST", row, "/test")
    call_webhook_api("DELETE", row)
    entries = session.scalars(select(AuditEntry).order_by(AuditEntry.id)).all()
    assert [each.action for each in entries] == [f"user.webhook.{op}" for op in ("update", "test", "delete")]
    assert not any("another one of 16" in str(vars(each)) for each in entries)
