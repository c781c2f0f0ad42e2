"""Test events and redeliveries, and the effect of changes of a subscription on deliveries."""

import json

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import AuditEntry, WebhookDelivery, WebhookSubscription
from panel.schemas.webhooks import CLUSTER_RESOURCE, EVENT_KINDS
from panel.services.webhooks.signing import sign_payload
from tests.support.webhook_receiver import WEBHOOK_SECRET


@pytest.fixture
def call_webhook_api(api_as):
    def call(method, row, path="", **body):
        answer = api_as("owner", method, f"/api/webhook-subscription/{row.id}{path}", json=body)
        assert answer.status_code < 300, answer.json
        return answer.json

    return call


def read_delivery_state(row):
    row = session.get(WebhookSubscription, row.id)
    return row.consecutive_failures, row.last_delivery_status, row.enabled


@pytest.mark.parametrize("kind", EVENT_KINDS)
def test_test_event_is_signed_and_has_payload_of_its_kind(call_webhook_api, subscribe, receiver, run_deliveries, kind):
    """DLV-13, DLV-14, DLV-16, DLV-18, DLV-19: also for test events."""
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
def test_test_event_is_sent_once_and_changes_no_counters(
    call_webhook_api, subscribe, receiver, run_deliveries, advance_clock, answer, status
):
    """Also while the subscription is disabled."""
    row = subscribe(consecutive_failures=19, last_delivery_status="failed_permanent", enabled=False)
    row.disabled_at = clock.now()
    receiver.answer = answer
    call_webhook_api("POST", row, "/test")
    for _ in range(3):
        run_deliveries()
        advance_clock(hours=1)
    assert len(receiver.posts) == 1
    (delivery,) = call_webhook_api("GET", row, "/deliveries")["data"]
    assert (delivery["status"], delivery["attempts"], delivery["response_code"]) == (status, 1, answer)
    assert read_delivery_state(row) == (19, "failed_permanent", False)


def test_redelivery_sends_same_event_with_new_attempts(call_webhook_api, subscribe, receiver, run_deliveries, cast):
    """DLV-04, DLV-06: a redelivery may use all attempts again."""
    row = subscribe()
    cast.instance()
    run_deliveries()
    (delivery,) = call_webhook_api("GET", row, "/deliveries")["data"]
    assert delivery["status"] == "delivered"
    call_webhook_api("POST", row, f"/delivery/{delivery['id']}/redeliver")
    receiver.answer = 503
    run_deliveries()
    (retried,) = call_webhook_api("GET", row, "/deliveries")["data"]
    assert (retried["status"], retried["attempts"]) == ("pending_retry", 1)
    first, second = receiver.posts
    assert first.body == second.body
    assert first.headers["X-Hypervisor-Event-Id"] == second.headers["X-Hypervisor-Event-Id"] == delivery["event_id"]
    assert first.headers["X-Hypervisor-Delivery"] != second.headers["X-Hypervisor-Delivery"]
    assert [attempt["code"] for attempt in session.get(WebhookDelivery, delivery["id"]).tries] == [204, 503]


def test_delivery_is_signed_with_current_secret(call_webhook_api, subscribe, receiver, run_deliveries, cast):
    """WHK-38, WHK-44, WHK-45: with changes by the API."""
    row = subscribe()
    assert read_delivery_state(row)[1] is None
    call_webhook_api("PATCH", row, name="new")
    cast.instance()
    run_deliveries()
    assert read_delivery_state(row)[1] == "delivered"
    call_webhook_api("PATCH", row, secret="another one of 16")
    cast.instance()
    run_deliveries()
    old_post, new_post = receiver.posts
    assert old_post.headers["X-Signature-256"] == sign_payload(old_post.body, WEBHOOK_SECRET)
    assert new_post.headers["X-Signature-256"] == sign_payload(new_post.body, "another one of 16")
    assert new_post.headers["X-Signature-256"] != sign_payload(new_post.body, WEBHOOK_SECRET)


def test_disabled_or_deleted_subscription_gets_no_delivery(
    call_webhook_api, subscribe, receiver, run_deliveries, cast, deliveries
):
    """WHK-36, WHK-49, DLV-36, DLV-37"""
    disabled, deleted = subscribe(enabled=False), subscribe()
    cast.instance()
    call_webhook_api("DELETE", deleted)
    run_deliveries()
    assert (receiver.posts, deliveries()) == ([], [])
    call_webhook_api("PATCH", disabled, enabled=True)
    run_deliveries()
    assert receiver.posts == []
    cast.instance()
    run_deliveries()
    assert len(receiver.posts) == 1


def test_audit_log_records_actions_without_secret(call_webhook_api, subscribe):
    row = subscribe()
    call_webhook_api("PATCH", row, secret="another one of 16")
    call_webhook_api("POST", row, "/test")
    call_webhook_api("DELETE", row)
    entries = session.scalars(select(AuditEntry).order_by(AuditEntry.id)).all()
    assert [entry.action for entry in entries] == [f"user.webhook.{op}" for op in ("update", "test", "delete")]
    assert not any("another one of 16" in str(vars(entry)) for entry in entries)
