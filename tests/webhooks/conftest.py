"""Fixtures of the webhook tests: trusted receivers, and deliveries that are sent on command."""

from datetime import timedelta

import pytest

from panel.core import clock, events
from panel.core.db import session
from panel.models import WebhookDelivery, WebhookSubscription
from panel.services.webhooks import delivery_queue
from tests.support.task_queue import queued_calls
from tests.support.webhook_receiver import WEBHOOK_SECRET, CertificateAuthority, Receiver
from tests.webhooks.fake_cluster import FakeCluster
from worker import webhooks
from worker.webhooks.connection import create_ssl_context
from worker.webhooks.delivery_run import DeliveryRun


@pytest.fixture(scope="session")
def authority():
    return CertificateAuthority()


@pytest.fixture(scope="session")
def certificate(authority, tmp_path_factory):
    return authority.issue(tmp_path_factory.mktemp("receiver"))


@pytest.fixture
def allow_loopback(change_config):
    """Allow webhooks to addresses of this machine."""
    change_config(webhook_allowed_networks="127.0.0.0/8")


@pytest.fixture
def receiver(certificate, allow_loopback):
    receiver = Receiver(certificate)
    yield receiver
    receiver.close()


@pytest.fixture
def subscribe(cast, receiver):
    """Return a function that creates a subscription: `subscribe(event_kinds=["instance.created"])`."""

    def create_subscription(caller="owner", **values):
        row = WebhookSubscription(
            account_id=getattr(cast, caller).id,
            name="test",
            **{"url": receiver.url(), "secret": WEBHOOK_SECRET, "event_kinds": ["*"], **values},
        )
        session.add(row)
        session.commit()
        return row

    return create_subscription


@pytest.fixture
def run_deliveries(rolled_back_app, authority):
    """Return a function that fans out all events and sends all deliveries that are due."""
    context = create_ssl_context(authority.pem)

    def deliver():
        session.commit()
        queued_calls.clear()
        webhooks.fan_out()
        while subscriptions := [
            *delivery_queue.claim_subscriptions("test", is_fast=True, maximum=100),
            *delivery_queue.claim_subscriptions("test", is_fast=False, maximum=100),
        ]:
            session.commit()
            for subscription in subscriptions:
                DeliveryRun(subscription, "test", context).serve()
        session.commit()
        session.expire_all()

    return deliver


@pytest.fixture
def advance_clock(monkeypatch):
    """Return a function that moves the clock: `advance_clock(seconds=10)`."""
    real, offset = clock.now, [timedelta()]
    monkeypatch.setattr(clock, "now", lambda: real() + offset[0])

    def advance(**time):
        offset[0] += timedelta(**time)

    return advance


@pytest.fixture
def deliveries(rolled_back_app):
    """Return a function that lists all deliveries, or those of a subscription, oldest first."""

    def list_deliveries(subscription=None):
        session.expire_all()
        query = session.query(WebhookDelivery).order_by(WebhookDelivery.id)
        return query.filter_by(subscription_id=subscription.id).all() if subscription else query.all()

    return list_deliveries


@pytest.fixture
def emit_cluster_event(cast):
    """Return a function that records an event of a cluster of the owner."""

    def emit(kind, cluster=None, severity="info", message="Something happened.", **data):
        cluster = cluster or FakeCluster(cast.owner)
        event = events.record(
            kind, "kubernetes_cluster", cluster, actor="test", severity=severity, message=message, **data
        )
        session.commit()
        return event

    return emit
