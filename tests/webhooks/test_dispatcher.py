"""Senders side by side: who serves whom, and that nobody waits for the slow ones."""

import ssl
import threading
import time
from collections import defaultdict
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import update

from panel.core import clock
from panel.core.db import new_id, session
from panel.models import Event, WebhookDelivery, WebhookSubscription
from panel.services import accounts, instances
from panel.services.webhooks import delivery_queue
from tests.processes.conftest import wait_until
from tests.support import isolated_app
from tests.support.webhook_receiver import SilentServer
from worker import webhooks
from worker.webhooks.dispatcher import Dispatcher


@pytest.fixture
def site(tmp_path, receiver, authority):
    """An installation with real commits; `receiver` answers."""
    with isolated_app.isolated_installation(tmp_path) as app:
        app.extensions["config"] = replace(app.extensions["config"], webhook_ca=authority.pem)
        with app.app_context():
            yield app


@contextmanager
def run_dispatchers(app, count=1, **options):
    started = [Dispatcher(app, **options).start() for _ in range(count)]
    try:
        yield started
    finally:
        for each in started:
            each.shutdown()


def subscribe(app, url, **values):
    facts = {"account_id": app.cast.owner.id, "name": "test", "secret": "a secret of the tests", "event_kinds": ["*"]}
    row = WebhookSubscription(url=url, **facts | values)
    session.add(row)
    session.commit()
    return row.id


def record_events(app, count=1):
    cast = app.cast
    for _ in range(count):
        wanted = {"location_id": cast.location.id, "plan_id": cast.plan.id, "actor": "test"}
        instances.create(session.merge(cast.owner), **wanted)
        session.commit()
    webhooks.fan_out()


def is_all_delivered():
    waiting = session.query(WebhookDelivery).filter(WebhookDelivery.status != "delivered").count()
    session.rollback()
    return not waiting


def test_a_stop_while_subscriptions_are_claimed_releases_them(site, receiver, monkeypatch):
    """The claim was submitted to a closed pool, and the process never ended."""
    subscription_id = subscribe(site, receiver.url())
    dispatcher = Dispatcher(site)
    shutdown = threading.Thread(target=dispatcher.shutdown, daemon=True)
    claim = delivery_queue.claim_subscriptions

    def claim_during_shutdown(*args, **options):
        if not shutdown.ident and (claimed := claim(*args, **options)):
            shutdown.start()
            shutdown.join(0.5)
            return claimed
        return []

    monkeypatch.setattr(delivery_queue, "claim_subscriptions", claim_during_shutdown)
    record_events(site)
    dispatcher.start()
    wait_until(lambda: shutdown.ident, "the claim")
    shutdown.join(10)
    assert not shutdown.is_alive()
    assert not receiver.posts
    assert session.get(WebhookSubscription, subscription_id, populate_existing=True).leased_by is None


def test_slow_receivers_delay_no_other_delivery(site, receiver):
    """Twelve receivers that never answer: the one that is is_fast notices nothing, and no account gets all threads."""
    subscribe(site, receiver.url(), is_fast=True)
    silent = [SilentServer() for _ in range(12)]
    for each in silent:
        subscribe(site, f"https://127.0.0.1:{each.port}/")
    with run_dispatchers(site, slow_threads=12) as [sender]:
        record_events(site)
        wait_until(lambda: sum(len(each.connections) for each in silent) >= 3, "the slow ones to hold their threads")
        wait_until(lambda: len(receiver.posts) == 1, "the first event")
        began = time.monotonic()
        record_events(site, 5)
        wait_until(lambda: len(receiver.posts) == 6, "the events")
        assert time.monotonic() - began < 3
        assert len([run for run in sender.runs if not run.is_fast]) <= 3
        end_attempts(silent)


def test_receivers_that_fall_silent_leave_their_threads_to_others(site, receiver):
    """Requirement 8, for receivers that answered at once so far: they hold no thread of the is_fast ones for long."""
    silent = [SilentServer() for _ in range(4)]
    for each in silent:
        subscribe(site, f"https://127.0.0.1:{each.port}/", is_fast=True)
    with run_dispatchers(site, fast_threads=4):
        record_events(site)
        wait_until(lambda: all(each.connections for each in silent), "the silent ones to hold all threads")
        subscribe(site, receiver.url(), is_fast=True)
        began = time.monotonic()
        record_events(site)
        wait_until(lambda: receiver.posts, "the event")
        assert time.monotonic() - began < 3
        end_attempts(silent)


@pytest.mark.parametrize("hangs", ["in the TLS handshake", "before it answers"])
@pytest.mark.parametrize("count", [2, 10])
def test_silent_receivers_of_other_accounts_delay_no_new_one(site, receiver, certificate, count, hangs):
    """WHK-84, requirement 8: twenty silent receivers of each of some accounts, and a new receiver of another one."""
    bad = [silent_receivers(certificate, hangs, 20) for _ in range(count)]
    for receivers in bad:
        account = account_of(site)
        for each in receivers:
            subscribe(site, f"https://127.0.0.1:{each.port}/", account_id=account)
        record_event(account)
    with run_dispatchers(site):
        webhooks.fan_out()
        time.sleep(1.5)
        delay = delay_of_new(site, receiver)
        end_attempts([each for receivers in bad for each in receivers])
    print(f"{count * 20} silent receivers delay a new one by {delay:.2f} s")
    assert delay < 5


def test_silent_paths_of_a_host_delay_no_new_one_of_the_same_account(site, receiver):
    """WHK-84, requirement 8: nineteen of an account's subscriptions on a host are silent, and the last one is not."""
    over = threading.Event()
    receiver.answer = lambda handler: (handler.path == "/good" or over.wait(60), answer_204(handler))
    for number in range(19):
        subscribe(site, receiver.url(f"/bad/{number}"))
    with run_dispatchers(site):
        subscribe(site, receiver.url("/good"))
        record_event(site.cast.owner.id)
        webhooks.fan_out()
        began = time.monotonic()
        wait_until(lambda: any(post.path == "/good" for post in receiver.posts), "the new receiver's event")
        assert time.monotonic() - began < 5
        over.set()


def answer_204(handler):
    handler.send_response(204)
    handler.end_headers()


def silent_receivers(certificate, hangs, count):
    if hangs == "in the TLS handshake":
        return [SilentServer() for _ in range(count)]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return [SilentAfterHandshake(context) for _ in range(count)]


class SilentAfterHandshake(SilentServer):
    def __init__(self, context):
        self.context = context
        super().__init__(self.shake_hands)

    def shake_hands(self, connection):
        with suppress(OSError):
            self.connections.append(self.context.wrap_socket(connection, server_side=True))


def end_attempts(silent):
    """Let every attempt end at once and none begin."""
    session.query(WebhookDelivery).filter(WebhookDelivery.status != "delivered").delete()
    session.commit()
    for each in silent:
        each.close()


def account_of(site):
    account = accounts.create(email=f"{new_id()}@example.com")
    session.commit()
    return account.id


def record_event(account_id):
    """Record an event of that account."""
    facts = {"kind": "instance.created", "resource_type": "instance", "resource_id": new_id(), "snapshot": {}}
    session.add(Event(account_id=account_id, data={}, actor="test", **facts))
    session.commit()


def delay_of_new(site, receiver):
    """Return the seconds from an event to the POST at a receiver that is new, of an account that has no other one."""
    account = account_of(site)
    subscribe(site, receiver.url(), account_id=account)
    record_event(account)
    began = time.monotonic()
    webhooks.fan_out()
    wait_until(lambda: receiver.posts, "the new receiver's event")
    return time.monotonic() - began


def test_one_sender_at_a_time_serves_a_subscription(site, receiver):
    """Its events arrive in order, each once, however many senders there are; and one receiver is not asked by more at
    once than a process may."""
    together, most, lock = defaultdict(int), defaultdict(int), threading.Lock()

    def slow(handler):
        for key in (handler.path, "all"):
            with lock:
                together[key] += 1
                most[key] = max(most[key], together[key])
        time.sleep(0.01)
        for key in (handler.path, "all"):
            with lock:
                together[key] -= 1
        handler.send_response(204)
        handler.end_headers()

    receiver.answer = slow
    paths = [f"/{number}" for number in range(8)]
    for path in paths:
        subscribe(site, receiver.url(path))
    with run_dispatchers(site, 2):
        for _ in range(3):
            record_events(site, 4)
        wait_until(lambda: len(receiver.posts) >= 96 and is_all_delivered(), "all deliveries")
    for path in paths:
        told = [post.headers["X-Hypervisor-Event-Id"] for post in receiver.posts if post.path == path]
        assert told == sorted(set(told))
        assert len(told) == 12
        assert most[path] == 1
    assert most["all"] <= 2 * delivery_queue.MAX_RUNS_PER_HOST


def test_a_lease_keeps_others_away_until_it_ends(site, receiver):
    subscription_id = subscribe(site, receiver.url())
    record_events(site)
    claim = lambda holder: [row.id for row in delivery_queue.claim_subscriptions(holder, is_fast=False, maximum=10)]  # noqa: E731
    assert claim("one") == [subscription_id]
    assert claim("two") == []
    assert delivery_queue.load_leased(subscription_id, "two") is None
    ends = {"leased_until": clock.now() - timedelta(seconds=1)}
    session.execute(update(WebhookSubscription).values(ends))
    delivery_queue.renew_leases(["one"])  # too late
    assert claim("two") == [subscription_id]
    assert delivery_queue.load_leased(subscription_id, "one") is None
    delivery_queue.release(subscription_id, "one")
    assert delivery_queue.load_leased(subscription_id, "two").url == receiver.url()
    session.commit()


def test_leases_of_long_turns_are_renewed(site, receiver, monkeypatch):
    monkeypatch.setattr(delivery_queue, "LEASE_DURATION", timedelta(seconds=1))
    monkeypatch.setattr("worker.webhooks.dispatcher.LEASE_RENEW_INTERVAL_SECONDS", 0.2)
    subscribe(site, receiver.url())
    receiver.answer = lambda handler: (time.sleep(2.5), handler.send_response(204), handler.end_headers())
    with run_dispatchers(site, 2):
        record_events(site)
        wait_until(is_all_delivered, "the delivery")
    assert len(receiver.posts) == 1


def test_those_that_wait_longest_are_served_first(site, receiver):
    late, early, never = (subscribe(site, receiver.url(f"/{name}")) for name in ("late", "early", "never"))
    for each, minutes in ((late, 1), (early, 2)):
        served = update(WebhookSubscription).where(WebhookSubscription.id == each)
        session.execute(served.values(leased_until=clock.now() - timedelta(minutes=minutes)))
    record_events(site)
    turns = [delivery_queue.claim_subscriptions("one", is_fast=False, maximum=1)[0].id for _ in range(3)]
    assert turns == [never, early, late]
    session.commit()
