"""What a receiver gets, and what follows from what it answers."""

import hashlib
import hmac
import json
import re
import tracemalloc
from datetime import timedelta

import pytest
from sqlalchemy import delete, func, select
from structlog.testing import capture_logs

from panel.core import clock
from panel.core.db import session
from panel.models import WebhookDelivery, WebhookSubscription
from panel.models.webhooks import OPEN_DELIVERY_STATUSES
from tests.support.webhook_receiver import CertificateAuthority, Receiver
from tests.webhooks.conftest import WEBHOOK_SECRET
from worker import webhooks
from worker.webhooks import delivery_run

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def test_a_receiver_gets_a_signed_post(cast, subscribe, receiver, run_deliveries):
    """DLV-01 DLV-02 DLV-03 DLV-05 DLV-06 DLV-07 DLV-08 DLV-11."""
    one, other = subscribe(), subscribe(url=receiver.url("/other"))
    cast.instance()
    run_deliveries()
    assert {post.path for post in receiver.posts} == {"/hook", "/other"}
    assert len(receiver.posts) == 2
    for post in receiver.posts:
        told = json.loads(post.body)["event"]
        assert post.method == "POST"
        assert post.headers["Content-Type"] == "application/json"
        assert post.headers["User-Agent"] == "Hypervisor-Webhook/1.0"
        assert post.headers["X-Hypervisor-Event"] == told["kind"] == "instance.created"
        assert post.headers["X-Hypervisor-Event-Id"] == told["id"]
        assert UUID.fullmatch(post.headers["X-Hypervisor-Delivery"])
        assert re.fullmatch("sha256=[0-9a-f]{64}", post.headers["X-Signature-256"])
        assert set(post.headers) == {
            "Host", "Content-Length", "Content-Type", "User-Agent", "X-Hypervisor-Delivery", "X-Hypervisor-Event",
            "X-Hypervisor-Event-Id", "X-Hypervisor-Subscription", "X-Signature-256",
        }  # fmt: skip
    assert {post.headers["X-Hypervisor-Subscription"] for post in receiver.posts} == {one.id, other.id}
    assert len({post.headers["X-Hypervisor-Event-Id"] for post in receiver.posts}) == 1


@pytest.mark.parametrize("name", ["plain", "Zürich/日本 </script> \\ 1.50", '"quoted" 1e400'])
def test_the_signature_is_over_the_very_bytes(cast, subscribe, receiver, run_deliveries, name):
    """DLV-09 DLV-10."""
    subscribe()
    cast.instance(display_name=name)
    run_deliveries()
    [post] = receiver.posts
    made = hmac.new(WEBHOOK_SECRET.encode(), post.body, hashlib.sha256).hexdigest()
    assert post.headers["X-Signature-256"] == f"sha256={made}"
    assert json.loads(post.body)["instance"]["display_name"] == name


def test_every_2xx_is_a_success(cast, subscribe, receiver, run_deliveries, deliveries):
    """DLV-20 DLV-21 DLV-22 DLV-40 WHK-38."""
    row = subscribe(consecutive_failures=3)
    assert row.last_delivery_status is None
    codes = receiver.answers = [200, 202, 204, 299]
    expected = [("delivered", code) for code in codes]
    for _ in codes:
        cast.instance()
    webhooks.fan_out()
    assert [(each.status, each.attempts, each.response_code) for each in deliveries()] == [("pending", 0, None)] * 4
    run_deliveries()
    assert [(each.status, each.response_code) for each in deliveries()] == expected
    assert all(each.duration_ms >= 0 and each.error is None for each in deliveries())
    session.refresh(row)
    assert (row.consecutive_failures, row.last_delivery_status) == (0, "delivered")


@pytest.mark.parametrize("code", [101, 301, 400, 404, 410, 500, 503])
def test_everything_else_is_tried_again(cast, subscribe, receiver, run_deliveries, deliveries, code):
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


def test_five_attempts_with_their_waits_and_no_sixth(
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
    assert [post.headers["X-Hypervisor-Delivery"] for post in receiver.posts] == [each["id"] for each in delivery.tries]
    assert {post.headers["X-Hypervisor-Event-Id"] for post in receiver.posts} == {delivery.event_id}
    assert len({post.body for post in receiver.posts}) == 1
    session.refresh(row)
    assert (row.consecutive_failures, row.last_delivery_status, row.enabled) == (1, "failed_permanent", True)
    advance_clock(days=1)
    run_deliveries()
    assert len(receiver.posts) == 5


def exhaust_deliveries(count, cast, send, moved):
    """That many deliveries fail for good: one attempt at a time, each as soon as it may be."""
    for _ in range(count):
        cast.instance()
    for _ in range(5 * count):
        send()
        waiting = session.scalar(
            select(func.min(WebhookDelivery.due_at)).where(WebhookDelivery.status.in_(OPEN_DELIVERY_STATUSES))
        )
        pause = waiting - clock.now() if waiting else timedelta()
        moved(seconds=max(1, pause.total_seconds()))


def test_the_twentieth_failure_in_a_row_switches_it_off(
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


def test_a_success_in_between_begins_the_count_anew(cast, subscribe, receiver, run_deliveries, advance_clock):
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


def test_no_redirect_is_followed(cast, subscribe, receiver, certificate, run_deliveries, deliveries):
    """DLV-24."""
    subscribe()
    elsewhere = Receiver(certificate)

    def redirect(handler):
        handler.send_response(302)
        handler.send_header("Location", elsewhere.url())
        finish_response(handler)

    receiver.answer = redirect
    cast.instance()
    run_deliveries()
    assert (len(receiver.posts), elsewhere.connections) == (1, 0)
    assert deliveries()[0].status == "pending_retry"
    elsewhere.close()


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
    ("wrong", "word"),
    [("self-signed", "unable to get local issuer"), ("expired", "has expired"), ("other host", "mismatch")],
)
def test_certificates_are_verified(
    cast, subscribe, allow_loopback, authority, tmp_path, run_deliveries, deliveries, wrong, word
):
    """DLV-12."""
    issuer = CertificateAuthority() if wrong == "self-signed" else authority
    hosts = ("other.example.com",) if wrong == "other host" else ("127.0.0.1",)
    impostor = Receiver(issuer.issue(tmp_path, hosts, days=-1 if wrong == "expired" else 2))
    subscribe(url=impostor.url())
    cast.instance()
    run_deliveries()
    assert (impostor.connections, impostor.posts) == (1, [])
    assert deliveries()[0].status == "pending_retry"
    assert word in deliveries()[0].error
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


def answer_half(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    handler.wfile.write(b"half")
    handler.close_connection = True


def answer_chunks(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
    handler.close_connection = True


def answer_nonsense(handler):
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
        *((answer, "delivered") for answer in (answer_large_body, answer_malformed, answer_half, answer_chunks)),
        *((answer, "pending_retry") for answer in (answer_nonsense, answer_many_headers, answer_nothing)),
    ],
)
def test_what_a_receiver_answers_breaks_nothing(cast, subscribe, receiver, run_deliveries, deliveries, answer, status):
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


def test_a_deleted_subscription_gets_nothing_more(cast, subscribe, receiver, run_deliveries, deliveries, advance_clock):
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
def test_deleted_while_a_turn_is_under_way(
    cast, subscribe, receiver, run_deliveries, rolled_back_app, monkeypatch, constant, value
):
    """DLV-37 DLV-38. What was waiting is not sent, and writing the rest down fails nobody."""
    row = subscribe()
    monkeypatch.setattr(delivery_run, constant, value)
    for _ in range(3):
        cast.instance()
    real = delivery_run.attempt_delivery

    def attempt(*facts):
        outcome = real(*facts)
        session.execute(delete(WebhookSubscription))
        session.commit()
        return outcome

    monkeypatch.setattr(delivery_run, "attempt_delivery", attempt)
    run_deliveries()
    assert len(receiver.posts) == 1
    assert session.get(WebhookSubscription, row.id) is None


def test_a_retry_signs_with_the_secret_of_that_moment(cast, subscribe, receiver, run_deliveries, advance_clock):
    """WHK-45."""
    row = subscribe()
    receiver.answers = [500]
    cast.instance()
    run_deliveries()
    row.secret = "quite another secret"
    advance_clock(seconds=10)
    run_deliveries()
    assert len(receiver.posts) == 2
    made = hmac.new(b"quite another secret", receiver.posts[1].body, hashlib.sha256).hexdigest()
    assert receiver.posts[1].headers["X-Signature-256"] == f"sha256={made}"


def test_switched_off_meanwhile_what_is_under_way_is_finished(
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
    assert [each.status for each in deliveries()] == ["delivered"]
    assert len(receiver.posts) == 2


def test_one_connection_carries_many(cast, subscribe, receiver, run_deliveries):
    subscribe()
    for _ in range(5):
        cast.instance()
    run_deliveries()
    assert (len(receiver.posts), receiver.connections) == (5, 1)


def test_the_order_of_events_is_kept(cast, subscribe, receiver, run_deliveries, advance_clock):
    subscribe()
    receiver.answers = [204, 500]
    for _ in range(4):
        cast.instance()
    run_deliveries()
    advance_clock(seconds=10)
    run_deliveries()
    told = [post.headers["X-Hypervisor-Event-Id"] for post in receiver.posts]
    assert told[0] < told[1] < told[2] < told[3]
    assert told[4] == told[1]


def test_a_turn_reads_on(cast, subscribe, receiver, run_deliveries, deliveries, monkeypatch):
    """In the order of events and over one connection. The first attempt that fails ends it; the receiver took something
    before, so the rest is due at once."""
    monkeypatch.setattr(delivery_run, "MAX_DELIVERIES_SLOW", 2)
    row = subscribe()
    receiver.answers = [204, 204, 204, 500]
    for _ in range(7):
        cast.instance()
    run_deliveries()
    told = [post.headers["X-Hypervisor-Event-Id"] for post in receiver.posts]
    assert told == sorted(set(told))
    assert (len(told), receiver.connections) == (7, 2)
    assert [each.status for each in deliveries()] == ["delivered"] * 3 + ["pending_retry"] + ["delivered"] * 3
    session.refresh(row)
    assert row.leased_by is None


def test_a_turn_does_not_read_on_for_long(cast, subscribe, receiver, run_deliveries, monkeypatch):
    monkeypatch.setattr(delivery_run, "MAX_DELIVERIES_SLOW", 2)
    monkeypatch.setattr(delivery_run, "READ_ON_SECONDS", 0.0)
    subscribe()
    for _ in range(4):
        cast.instance()
    run_deliveries()
    assert (len(receiver.posts), receiver.connections) == (4, 2)


def test_an_answer_is_kept_in_part(cast, subscribe, receiver, run_deliveries, deliveries):
    subscribe()
    receiver.answers = [lambda handler: (handler.send_response(200), finish_response(handler, b"\xff\0" + b"x" * 5000))]
    cast.instance()
    run_deliveries()
    [kept] = deliveries()[0].tries
    assert kept["body"] == "\ufffd\ufffd" + "x" * 2046
    assert (kept["code"], kept["error"]) == (200, None)
