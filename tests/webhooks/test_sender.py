"""Senders side by side: who serves whom, and that nobody waits for the slow ones."""

import threading
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import update

from panel import clock
from panel.db import session
from panel.models import WebhookDelivery, WebhookSubscription
from panel.services import instances
from panel.services.webhooks import sending
from tests import apart
from tests.processes.conftest import wait_for
from tests.webhooks.receiver import Silence
from worker import webhooks
from worker.webhooks.sender import Sender


@pytest.fixture
def site(tmp_path, receiver, authority):
    """An installation with real commits; `receiver` answers."""
    with apart.installation(tmp_path) as app:
        app.extensions["config"] = replace(app.extensions["config"], webhook_ca=authority.pem)
        with app.app_context():
            yield app


@contextmanager
def senders(app, count=1, **options):
    started = [Sender(app, **options).start() for _ in range(count)]
    try:
        yield started
    finally:
        for each in started:
            each.put_down()


def subscribe(app, url, **values):
    facts = {"name": "test", "secret": "a secret of the tests", "event_kinds": ["*"], **values}
    row = WebhookSubscription(account_id=app.cast.owner.id, url=url, **facts)
    session.add(row)
    session.commit()
    return row.id


def happens(app, count=1):
    cast = app.cast
    for _ in range(count):
        wanted = {"location_id": cast.location.id, "plan_id": cast.plan.id, "actor": "test"}
        instances.create(session.merge(cast.owner), **wanted)
        session.commit()
    webhooks.spread()


def all_delivered():
    waiting = session.query(WebhookDelivery).filter(WebhookDelivery.status != "delivered").count()
    session.rollback()
    return not waiting


def test_nobody_waits_for_the_slow_ones(site, receiver):
    """Twelve receivers that never answer, four threads for such ones: the one that is quick notices nothing, and a new
    one gets its turn."""
    subscribe(site, receiver.url(), quick=True)
    silent = [Silence() for _ in range(12)]
    for each in silent:
        subscribe(site, f"https://127.0.0.1:{each.port}/")
    with senders(site, threads=4) as [sender]:
        happens(site)
        wait_for(lambda: sum(len(each.kept) for each in silent) >= 4, "the slow ones to hold their threads")
        wait_for(lambda: len(receiver.posts) == 1, "the first event")
        began = time.monotonic()
        happens(site, 5)
        wait_for(lambda: len(receiver.posts) == 6, "the events")
        assert time.monotonic() - began < 3
        assert len(sender.runs[False]) == 4
        for each in silent:
            each.close()
        session.query(WebhookDelivery).filter(WebhookDelivery.status != "delivered").delete()
        session.commit()


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
    with senders(site, 2):
        for _ in range(3):
            happens(site, 4)
        wait_for(lambda: len(receiver.posts) >= 96 and all_delivered(), "all deliveries")
    for path in paths:
        told = [post.headers["X-Hypervisor-Event-Id"] for post in receiver.posts if post.path == path]
        assert told == sorted(set(told))
        assert len(told) == 12
        assert most[path] == 1
    assert most["all"] <= 2 * sending.PER_HOST


def test_a_lease_keeps_others_away_until_it_ends(site, receiver):
    subscription_id = subscribe(site, receiver.url())
    happens(site)
    claim = lambda holder: [row.id for row in sending.claim(holder, quick=False, most=10)]  # noqa: E731
    assert claim("one") == [subscription_id]
    assert claim("two") == []
    assert sending.held(subscription_id, "two") is None
    ends = {"held_until": clock.now() - timedelta(seconds=1)}
    session.execute(update(WebhookSubscription).values(ends))
    sending.renew(["one"])  # too late
    assert claim("two") == [subscription_id]
    assert sending.held(subscription_id, "one") is None
    sending.release(subscription_id, "one")
    assert sending.held(subscription_id, "two").url == receiver.url()
    session.commit()


def test_leases_of_long_turns_are_renewed(site, receiver, monkeypatch):
    monkeypatch.setattr(sending, "LEASE", timedelta(seconds=1))
    monkeypatch.setattr("worker.webhooks.sender.RENEW", 0.2)
    subscribe(site, receiver.url())
    receiver.answer = lambda handler: (time.sleep(2.5), handler.send_response(204), handler.end_headers())
    with senders(site, 2):
        happens(site)
        wait_for(all_delivered, "the delivery")
    assert len(receiver.posts) == 1


def test_those_that_wait_longest_are_served_first(site, receiver):
    late, early, never = (subscribe(site, receiver.url(f"/{name}")) for name in ("late", "early", "never"))
    for each, minutes in ((late, 1), (early, 2)):
        served = update(WebhookSubscription).where(WebhookSubscription.id == each)
        session.execute(served.values(held_until=clock.now() - timedelta(minutes=minutes)))
    happens(site)
    turns = [sending.claim("one", quick=False, most=1)[0].id for _ in range(3)]
    assert turns == [never, early, late]
    session.commit()
