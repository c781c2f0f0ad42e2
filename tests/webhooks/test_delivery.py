"""The request of a delivery, and the effect of the receiver's answer."""

import hashlib
import hmac
import json
import re
import tracemalloc
from datetime import timedelta

import pytest
from sqlalchemy import delete, func, select
from structlog.testing import capture_logs

from panel.core import clock, messages
from panel.core.db import session
from panel.models import WebhookDelivery, WebhookSubscription
from panel.models.webhooks import OPEN_DELIVERY_STATUSES
from tests.support.webhook_receiver import WEBHOOK_SECRET, CertificateAuthority, Receiver
from worker import webhooks
from worker.webhooks import delivery_run

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def test_delivery_is_signed_post(cast, subscribe, receiver, run_deliveries):
    """DLV-01 DLV-02 DLV-03 DLV-05 DLV-06 DLV-07 DLV-08 DLV-11."""
    first, second = subscribe(), subscribe(url=receiver.url("/other"))
    cast.instance()
    run_deliveries()
    assert {post.path for post in receiver.posts} == {"/hook", "/other"}
    assert len(receiver.posts) == 2
    for post in receiver.posts:
        event = json.loads(post.body)["event"]
        assert post.method == "POST"
        assert post.headers["Content-Type"] == "application/json"
        assert post.headers["User-Agent"] == "Hypervisor-Webhook/1.0"
        assert post.headers["X-Hypervisor-Event"] == event["kind"] == "instance.created"
        assert post.headers["X-Hypervisor-Event-Id"] == event["id"]
        assert UUID.fullmatch(post.headers["X-Hypervisor-Delivery"])
        assert re.fullmatch("sha256=[0-9a-f]{64}", post.headers["X-Signature-256"])
        assert set(post.headers) == {
            "Host", "Content-Length", "Content-Type", "User-Agent", "X-Hypervisor-Delivery", "X-Hypervisor-Event",
            "X-Hypervisor-Event-Id", "X-Hypervisor-Subscription", "X-Signature-256",
        }  # fmt: skip
    assert {post.headers["X-Hypervisor-Subscription"] for post in receiver.posts} == {first.id, second.id}
    assert len({post.headers["X-Hypervisor-Event-Id"] for post in receiver.posts}) == 1


@pytest.mark.parametrize("name", ["plain", "Zürich/日本 </script> \\ 1.50", '"quoted" 1e400'])
def test_signature_covers_exact_body_bytes(cast, subscribe, receiver, run_deliveries, name):
    """DLV-09 DLV-10."""
    subscribe()
    cast.instance(display_name=name)
    run_deliveries()
    [post] = receiver.posts
    digest = hmac.new(WEBHOOK_SECRET.encode(), post.body, hashlib.sha256).hexdigest()
    assert post.headers["X-Signature-256"] == f"sha256={digest}"
    assert json.loads(post.body)["instance"]["display_name"] == name


def test_delivery_succeeds_with_any_2xx_status(cast, subscribe, receiver, run_deliveries, deliveries):
    """DLV-20 DLV-21 DLV-22 DLV-40 WHK-38."""
    row = subscribe(consecutive_failures=3)
    assert row.last_delivery_status is None
    codes = receiver.answers = [200, 202, 204, 299]
    expected = [("delivered", code) for code in codes]
    for _ in codes:
        cast.instance()
    webhooks.fan_out()
    assert [(delivery.status, delivery.attempts, delivery.response_code) for delivery in deliveries()] == [
        ("pending", 0, None)
    ] * 4
    run_deliveries()
    assert [(delivery.status, delivery.response_code) for delivery in deliveries()] == expected
    assert all(delivery.duration_ms >= 0 and delivery.error is None for delivery in deliveries())
    session.refresh(row)
    assert (row.consecutive_failures, row.last_delivery_status) == (0, "delivered")


@pytest.mark.parametrize("code", [101, 301, 400, 404, 410, 500, 503])
def test_delivery_is_retried_after_other_status(cast, subscribe, receiver, run_deliveries, deliveries, code):
    """DLV-23 DLV-29."""
    row = subscribe()
    receiver.answer = code
    cast.instance()
    run_deliveries()
    [delivery] = deliveries()
    assert (delivery.status, delivery.attempts, delivery.response_code) == ("pending_retry", 1, code)
    assert delivery.error == f"The receiver answered {code} and not with a status from 200 to 299."
    session.refresh(row)
    assert (row.consecutive_failures, row.last_delivery_status) == (0, "pending_retry")


def test_delivery_retries_with_backoff_up_to_five_attempts(
    cast, subscribe, receiver, run_deliveries, deliveries, advance_clock
):
    """DLV-04 DLV-06 DLV-26 DLV-27 DLV-28 DLV-29 DLV-39."""
    row = subscribe()
    receiver.answer = 500
    cast.instance()
    run_deliveries()
    for wait in (10, 60, 300, 900):
        before = len(receiver.posts)
        advance_clock(seconds=wait - 2)
        run_deliveries()
        assert len(receiver.posts) == before, "too early"
        session.refresh(row)
        assert row.consecutive_failures == 0
        advance_clock(seconds=2)
        run_deliveries()
        assert len(receiver.posts) == before + 1, "too late"
    [delivery] = deliveries()
    assert (delivery.status, delivery.attempts, len(delivery.tries)) == ("failed_permanent", 5, 5)
    assert len({post.headers["X-Hypervisor-Delivery"] for post in receiver.posts}) == 5
    assert [post.headers["X-Hypervisor-Delivery"] for post in receiver.posts] == [
        attempt["id"] for attempt in delivery.tries
    ]
    assert all(messages.from_stored(attempt["error"]).parameters for attempt in delivery.tries), "cannot be translated"
    assert {post.headers["X-Hypervisor-Event-Id"] for post in receiver.posts} == {delivery.event_id}
    assert len({post.body for post in receiver.posts}) == 1
    session.refresh(row)
    assert (row.consecutive_failures, row.last_delivery_status, row.enabled) == (1, "failed_permanent", True)
    advance_clock(days=1)
    run_deliveries()
    assert len(receiver.posts) == 5


def exhaust_deliveries(count, cast, run_deliveries, advance_clock):
    """Let that many deliveries fail permanently, each attempt as soon as it is due."""
    for _ in range(count):
        cast.instance()
    for _ in range(5 * count):
        run_deliveries()
        due_at = session.scalar(
            select(func.min(WebhookDelivery.due_at)).where(WebhookDelivery.status.in_(OPEN_DELIVERY_STATUSES))
        )
        pause = due_at - clock.now() if due_at else timedelta()
        advance_clock(seconds=max(1, pause.total_seconds()))


def test_subscription_is_disabled_after_twenty_consecutive_failures(
    cast, subscribe, receiver, run_deliveries, deliveries, advance_clock
):
    """DLV-33 DLV-34 DLV-36."""
    row = subscribe()
    receiver.answer = 500
    exhaust_deliveries(19, cast, run_deliveries, advance_clock)
    session.refresh(row)
    assert (row.consecutive_failures, row.enabled, row.disabled_at) == (19, True, None)
    exhaust_deliveries(1, cast, run_deliveries, advance_clock)
    session.refresh(row)
    assert (row.consecutive_failures, row.enabled) == (20, False)
    assert row.disabled_at is not None
    assert len(receiver.posts) == 100
    cast.instance()
    run_deliveries()
    assert len(deliveries()) == 20


def test_success_resets_consecutive_failures(cast, subscribe, receiver, run_deliveries, advance_clock):
    """DLV-22 DLV-35."""
    row = subscribe()
    receiver.answer = 500
    exhaust_deliveries(10, cast, run_deliveries, advance_clock)
    receiver.answer = 204
    cast.instance()
    run_deliveries()
    session.refresh(row)
    assert row.consecutive_failures == 0
    receiver.answer = 500
    exhaust_deliveries(19, cast, run_deliveries, advance_clock)
    session.refresh(row)
    assert (row.consecutive_failures, row.enabled) == (19, True)


def test_redirects_are_not_followed(cast, subscribe, receiver, certificate, run_deliveries, deliveries):
    """DLV-24."""
    subscribe()
    other_receiver = Receiver(certificate)

    def redirect(handler):
        handler.send_response(302)
        handler.send_header("Location", other_receiver.url())
        finish_response(handler)

    receiver.answer = redirect
    cast.instance()
    run_deliveries()
    assert (len(receiver.posts), other_receiver.connections) == (1, 0)
    assert deliveries()[0].status == "pending_retry"
    other_receiver.close()


def finish_response(handler, body=b""):
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def test_delivery_to_closed_port_is_retried(cast, subscribe, receiver, run_deliveries, deliveries):
    """DLV-25."""
    subscribe()
    receiver.close()
    cast.instance()
    run_deliveries()
    [delivery] = deliveries()
    assert (delivery.status, delivery.response_code) == ("pending_retry", None)
    assert delivery.error == "The receiver refused the connection."


@pytest.mark.parametrize(
    ("defect", "expected_error"),
    [("self-signed", "unable to get local issuer"), ("expired", "has expired"), ("other host", "mismatch")],
)
def test_certificates_are_verified(
    cast, subscribe, allow_loopback, authority, tmp_path, run_deliveries, deliveries, defect, expected_error
):
    """DLV-12."""
    issuer = CertificateAuthority() if defect == "self-signed" else authority
    hosts = ("other.example.com",) if defect == "other host" else ("127.0.0.1",)
    impostor = Receiver(issuer.issue(tmp_path, hosts, days=-1 if defect == "expired" else 2))
    subscribe(url=impostor.url())
    cast.instance()
    run_deliveries()
    assert (impostor.connections, impostor.posts) == (1, [])
    assert deliveries()[0].status == "pending_retry"
    assert expected_error in deliveries()[0].error
    impostor.close()


def answer_large_body(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", str(50 << 20))
    handler.end_headers()
    for _ in range(50):
        handler.wfile.write(bytes(1 << 20))


def answer_malformed(handler):
    handler.wfile.write(b"HTTP/1.1 200 \xff\r\n: nothing\r\nno colon\r\nContent-Length: -5\r\n\r\n\xff\0{")
    handler.close_connection = True


def answer_partial_body(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    handler.wfile.write(b"half")
    handler.close_connection = True


def answer_invalid_chunk(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
    handler.close_connection = True


def answer_binary(handler):
    handler.wfile.write(b"\0\1\2" * 1000)
    handler.close_connection = True


def answer_many_headers(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5000)
    handler.close_connection = True


def answer_nothing(handler):
    handler.close_connection = True


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        *(
            (answer, "delivered")
            for answer in (answer_large_body, answer_malformed, answer_partial_body, answer_invalid_chunk)
        ),
        *((answer, "pending_retry") for answer in (answer_binary, answer_many_headers, answer_nothing)),
    ],
)
def test_malformed_answers_are_handled(cast, subscribe, receiver, run_deliveries, deliveries, answer, status):
    """DLV-42."""
    subscribe()
    receiver.answers = [answer]
    cast.instance()
    cast.instance()
    tracemalloc.start()
    run_deliveries()
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()
    first, second = deliveries()
    assert first.status == status
    assert len(first.tries[0]["body"] or "") <= 2048
    assert second.status == "delivered" if status == "delivered" else "pending"


def test_deleted_subscription_gets_no_delivery(cast, subscribe, receiver, run_deliveries, deliveries, advance_clock):
    """DLV-37 DLV-38."""
    row = subscribe()
    receiver.answer = 500
    cast.instance()
    run_deliveries()
    session.delete(session.merge(row))
    session.commit()
    assert deliveries() == []
    advance_clock(hours=1)
    with capture_logs() as logs:
        run_deliveries()
    assert len(receiver.posts) == 1
    assert logs == []


@pytest.mark.parametrize(("constant", "value"), [("OUTCOME_WRITE_INTERVAL_SECONDS", 0.0), ("MAX_DELIVERIES_SLOW", 1)])
def test_subscription_deleted_during_run_stops_the_run(
    cast, subscribe, receiver, run_deliveries, rolled_back_app, monkeypatch, constant, value
):
    """DLV-37 DLV-38. Waiting deliveries are not sent, and writing the outcomes raises no error."""
    row = subscribe()
    monkeypatch.setattr(delivery_run, constant, value)
    for _ in range(3):
        cast.instance()
    real = delivery_run.attempt_delivery

    def attempt(*args):
        outcome = real(*args)
        session.execute(delete(WebhookSubscription))
        session.commit()
        return outcome

    monkeypatch.setattr(delivery_run, "attempt_delivery", attempt)
    run_deliveries()
    assert len(receiver.posts) == 1
    assert session.get(WebhookSubscription, row.id) is None


def test_retry_is_signed_with_current_secret(cast, subscribe, receiver, run_deliveries, advance_clock):
    """WHK-45."""
    row = subscribe()
    receiver.answers = [500]
    cast.instance()
    run_deliveries()
    row.secret = "quite another secret"
    advance_clock(seconds=10)
    run_deliveries()
    assert len(receiver.posts) == 2
    digest = hmac.new(b"quite another secret", receiver.posts[1].body, hashlib.sha256).hexdigest()
    assert receiver.posts[1].headers["X-Signature-256"] == f"sha256={digest}"


def test_disabled_subscription_finishes_open_deliveries(
    cast, subscribe, receiver, run_deliveries, deliveries, advance_clock
):
    """DLV-36."""
    row = subscribe()
    receiver.answers = [500]
    cast.instance()
    run_deliveries()
    row.enabled = False
    session.commit()
    cast.instance()
    advance_clock(seconds=10)
    run_deliveries()
    assert [delivery.status for delivery in deliveries()] == ["delivered"]
    assert len(receiver.posts) == 2


def test_run_sends_deliveries_over_one_connection(cast, subscribe, receiver, run_deliveries):
    subscribe()
    for _ in range(5):
        cast.instance()
    run_deliveries()
    assert (len(receiver.posts), receiver.connections) == (5, 1)


def test_deliveries_keep_event_order(cast, subscribe, receiver, run_deliveries, advance_clock):
    subscribe()
    receiver.answers = [204, 500]
    for _ in range(4):
        cast.instance()
    run_deliveries()
    advance_clock(seconds=10)
    run_deliveries()
    event_ids = [post.headers["X-Hypervisor-Event-Id"] for post in receiver.posts]
    assert event_ids[0] < event_ids[1] < event_ids[2] < event_ids[3]
    assert event_ids[4] == event_ids[1]


def test_run_loads_further_batches_until_first_failure(
    cast, subscribe, receiver, run_deliveries, deliveries, monkeypatch
):
    """In event order and over one connection. The first failed attempt ends the run; deliveries succeeded before, so
    the rest is due at once."""
    monkeypatch.setattr(delivery_run, "MAX_DELIVERIES_SLOW", 2)
    row = subscribe()
    receiver.answers = [204, 204, 204, 500]
    for _ in range(7):
        cast.instance()
    run_deliveries()
    event_ids = [post.headers["X-Hypervisor-Event-Id"] for post in receiver.posts]
    assert event_ids == sorted(set(event_ids))
    assert (len(event_ids), receiver.connections) == (7, 2)
    assert [delivery.status for delivery in deliveries()] == ["delivered"] * 3 + ["pending_retry"] + ["delivered"] * 3
    session.refresh(row)
    assert row.leased_by is None


def test_run_loads_no_batch_after_time_limit(cast, subscribe, receiver, run_deliveries, monkeypatch):
    monkeypatch.setattr(delivery_run, "MAX_DELIVERIES_SLOW", 2)
    monkeypatch.setattr(delivery_run, "READ_ON_SECONDS", 0.0)
    subscribe()
    for _ in range(4):
        cast.instance()
    run_deliveries()
    assert (len(receiver.posts), receiver.connections) == (4, 2)


def test_stored_answer_is_truncated(cast, subscribe, receiver, run_deliveries, deliveries):
    subscribe()
    receiver.answers = [lambda handler: (handler.send_response(200), finish_response(handler, b"\xff\0" + b"x" * 5000))]
    cast.instance()
    run_deliveries()
    [attempt] = deliveries()[0].tries
    assert attempt["body"] == "\ufffd\ufffd" + "x" * 2046
    assert (attempt["code"], attempt["error"]) == (200, None)
