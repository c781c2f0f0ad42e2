"""Several dispatchers: which of them serves a subscription, and that slow receivers delay no others."""

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
from panel.core.db import generate_id, session
from panel.models import Event, WebhookDelivery, WebhookSubscription
from panel.services import accounts, instances
from panel.services.webhooks import delivery_queue
from tests.support import isolated_app
from tests.support.waiting import wait_until
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
    dispatchers = [Dispatcher(app, **options).start() for _ in range(count)]
    try:
        yield dispatchers
    finally:
        for dispatcher in dispatchers:
            dispatcher.shutdown()


def subscribe(app, url, **values):
    defaults = {
        "account_id": app.cast.owner.id,
        "name": "test",
        "secret": "a secret of the tests",
        "event_kinds": ["*"],
    }
    row = WebhookSubscription(url=url, **defaults | values)
    session.add(row)
    session.commit()
    return row.id


def record_events(app, count=1):
    cast = app.cast
    for _ in range(count):
        placement = {"location_id": cast.location.id, "plan_id": cast.plan.id, "actor": "test"}
        instances.create(session.merge(cast.owner), **placement)
        session.commit()
    webhooks.fan_out()


def is_all_delivered():
    open_count = session.query(WebhookDelivery).filter(WebhookDelivery.status != "delivered").count()
    session.rollback()
    return not open_count


def test_shutdown_during_claim_releases_subscriptions(site, receiver, monkeypatch):
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


def test_slow_receivers_do_not_delay_other_deliveries(site, receiver):
    """Twelve receivers never answer. The fast one is not delayed, and no account gets all threads."""
    subscribe(site, receiver.url(), is_fast=True)
    silent = [SilentServer() for _ in range(12)]
    for server in silent:
        subscribe(site, f"https://127.0.0.1:{server.port}/")
    with run_dispatchers(site, slow_threads=12) as [dispatcher]:
        record_events(site)
        wait_until(
            lambda: sum(len(server.connections) for server in silent) >= 3, "the silent receivers to hold their threads"
        )
        wait_until(lambda: len(receiver.posts) == 1, "the first event")
        started_at = time.monotonic()
        record_events(site, 5)
        wait_until(lambda: len(receiver.posts) == 6, "the events")
        assert time.monotonic() - started_at < 3
        assert len([run for run in dispatcher.runs if not run.is_fast]) <= 3
        end_attempts(silent)


def test_silent_receivers_do_not_hold_fast_threads(site, receiver):
    """For receivers that answered quickly before: they hold no fast thread for long."""
    silent = [SilentServer() for _ in range(4)]
    for server in silent:
        subscribe(site, f"https://127.0.0.1:{server.port}/", is_fast=True)
    with run_dispatchers(site, fast_threads=4):
        record_events(site)
        wait_until(lambda: all(server.connections for server in silent), "the silent receivers to hold all threads")
        subscribe(site, receiver.url(), is_fast=True)
        started_at = time.monotonic()
        record_events(site)
        wait_until(lambda: receiver.posts, "the event")
        assert time.monotonic() - started_at < 3
        end_attempts(silent)


@pytest.mark.parametrize("hangs", ["in the TLS handshake", "before it answers"])
@pytest.mark.parametrize("count", [2, 10])
def test_silent_receivers_of_other_accounts_do_not_delay_new_receiver(site, receiver, certificate, count, hangs):
    """WHK-84: twenty silent receivers of each of several accounts, and a new receiver of another
    account."""
    silent_by_account = [create_silent_receivers(certificate, hangs, 20) for _ in range(count)]
    for receivers in silent_by_account:
        account = create_account(site)
        for server in receivers:
            subscribe(site, f"https://127.0.0.1:{server.port}/", account_id=account)
        record_event(account)
    with run_dispatchers(site):
        webhooks.fan_out()
        time.sleep(1.5)
        delay = measure_delivery_delay(site, receiver)
        end_attempts([server for receivers in silent_by_account for server in receivers])
    print(f"{count * 20} silent receivers delay a new one by {delay:.2f} s")
    assert delay < 5


def test_silent_paths_of_host_do_not_delay_new_path_of_same_account(site, receiver):
    """WHK-84: nineteen of an account's subscriptions on a host are silent, and the last one is not."""
    finished = threading.Event()
    receiver.answer = lambda handler: (handler.path == "/good" or finished.wait(60), answer_204(handler))
    for number in range(19):
        subscribe(site, receiver.url(f"/bad/{number}"))
    with run_dispatchers(site):
        subscribe(site, receiver.url("/good"))
        record_event(site.cast.owner.id)
        webhooks.fan_out()
        started_at = time.monotonic()
        wait_until(lambda: any(post.path == "/good" for post in receiver.posts), "the new receiver's event")
        assert time.monotonic() - started_at < 5
        finished.set()


def answer_204(handler):
    handler.send_response(204)
    handler.end_headers()


def create_silent_receivers(certificate, hangs, count):
    if hangs == "in the TLS handshake":
        return [SilentServer() for _ in range(count)]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return [SilentAfterHandshake(context) for _ in range(count)]


class SilentAfterHandshake(SilentServer):
    def __init__(self, context):
        self.context = context
        super().__init__(self.complete_handshake)

    def complete_handshake(self, connection):
        with suppress(OSError):
            self.connections.append(self.context.wrap_socket(connection, server_side=True))


def end_attempts(servers):
    """Make every open attempt end at once, and prevent new ones."""
    session.query(WebhookDelivery).filter(WebhookDelivery.status != "delivered").delete()
    session.commit()
    for server in servers:
        server.close()


def create_account(site):
    account = accounts.create(email=f"{generate_id()}@example.com")
    session.commit()
    return account.id


def record_event(account_id):
    """Record an event of that account."""
    values = {"kind": "instance.created", "resource_type": "instance", "resource_id": generate_id(), "snapshot": {}}
    session.add(Event(account_id=account_id, data={}, actor="test", **values))
    session.commit()


def measure_delivery_delay(site, receiver):
    """Return the seconds from an event to the POST at a new receiver of a new account."""
    account = create_account(site)
    subscribe(site, receiver.url(), account_id=account)
    record_event(account)
    started_at = time.monotonic()
    webhooks.fan_out()
    wait_until(lambda: receiver.posts, "the new receiver's event")
    return time.monotonic() - started_at


def test_subscription_is_served_by_one_dispatcher_at_a_time(site, receiver):
    """Its events arrive in order, each once, with several dispatchers, and a process sends a host no more requests at
    once than its limit."""
    active_requests, max_requests, lock = defaultdict(int), defaultdict(int), threading.Lock()

    def answer_with_delay(handler):
        for key in (handler.path, "all"):
            with lock:
                active_requests[key] += 1
                max_requests[key] = max(max_requests[key], active_requests[key])
        time.sleep(0.01)
        for key in (handler.path, "all"):
            with lock:
                active_requests[key] -= 1
        handler.send_response(204)
        handler.end_headers()

    receiver.answer = answer_with_delay
    paths = [f"/{number}" for number in range(8)]
    for path in paths:
        subscribe(site, receiver.url(path))
    with run_dispatchers(site, 2):
        for _ in range(3):
            record_events(site, 4)
        wait_until(lambda: len(receiver.posts) >= 96 and is_all_delivered(), "all deliveries")
    for path in paths:
        event_ids = [post.headers["X-Hypervisor-Event-Id"] for post in receiver.posts if post.path == path]
        assert event_ids == sorted(set(event_ids))
        assert len(event_ids) == 12
        assert max_requests[path] == 1
    assert max_requests["all"] <= 2 * delivery_queue.MAX_RUNS_PER_HOST


def test_subscription_lease_excludes_other_holders_until_it_ends(site, receiver):
    subscription_id = subscribe(site, receiver.url())
    record_events(site)
    claim = lambda holder: [row.id for row in delivery_queue.claim_subscriptions(holder, is_fast=False, maximum=10)]  # noqa: E731
    assert claim("one") == [subscription_id]
    assert claim("two") == []
    assert delivery_queue.load_leased(subscription_id, "two") is None
    expired = {"leased_until": clock.now() - timedelta(seconds=1)}
    session.execute(update(WebhookSubscription).values(expired))
    delivery_queue.renew_leases(["one"])  # too late
    assert claim("two") == [subscription_id]
    assert delivery_queue.load_leased(subscription_id, "one") is None
    delivery_queue.release(subscription_id, "one")
    assert delivery_queue.load_leased(subscription_id, "two").url == receiver.url()
    session.commit()


def test_leases_of_long_runs_are_renewed(site, receiver, monkeypatch):
    monkeypatch.setattr(delivery_queue, "LEASE_DURATION", timedelta(seconds=1))
    monkeypatch.setattr("worker.webhooks.dispatcher.LEASE_RENEW_INTERVAL_SECONDS", 0.2)
    subscribe(site, receiver.url())
    receiver.answer = lambda handler: (time.sleep(2.5), handler.send_response(204), handler.end_headers())
    with run_dispatchers(site, 2):
        record_events(site)
        wait_until(is_all_delivered, "the delivery")
    assert len(receiver.posts) == 1


def test_subscriptions_are_served_in_order_of_waiting_time(site, receiver):
    late, early, never = (subscribe(site, receiver.url(f"/{name}")) for name in ("late", "early", "never"))
    for subscription_id, minutes in ((late, 1), (early, 2)):
        query = update(WebhookSubscription).where(WebhookSubscription.id == subscription_id)
        session.execute(query.values(leased_until=clock.now() - timedelta(minutes=minutes)))
    record_events(site)
    served_ids = [delivery_queue.claim_subscriptions("one", is_fast=False, maximum=1)[0].id for _ in range(3)]
    assert served_ids == [never, early, late]
    session.commit()
