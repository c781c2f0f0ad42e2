"""Receivers that trust is given to, and a sender that works when it is told to."""

from datetime import timedelta

import pytest

from panel.core import clock, events
from panel.core.db import session
from panel.models import WebhookDelivery, WebhookSubscription
from panel.services.webhooks import delivery_queue
from tests.conftest import queued_calls
from tests.support.webhook_receiver import CertificateAuthority, Receiver
from worker import webhooks
from worker.webhooks.connection import create_ssl_context
from worker.webhooks.delivery_run import DeliveryRun

WEBHOOK_SECRET = "a secret of the tests"


@pytest.fixture(scope="session")
def authority():
    return CertificateAuthority()


@pytest.fixture(scope="session")
def certificate(authority, tmp_path_factory):
    return authority.issue(tmp_path_factory.mktemp("receiver"))


@pytest.fixture
def allow_loopback(change_config):
    """This machine is taken for public."""
    change_config(webhook_allowed_networks="127.0.0.0/8")


@pytest.fixture
def receiver(certificate, allow_loopback):
    made = Receiver(certificate)
    yield made
    made.close()


@pytest.fixture
def subscribe(cast, receiver):
    """A subscription's row: `subscribe(event_kinds=["instance.created"])`."""

    def made(who="owner", **values):
        row = WebhookSubscription(
            account_id=getattr(cast, who).id,
            name="test",
            **{"url": receiver.url(), "secret": WEBHOOK_SECRET, "event_kinds": ["*"], **values},
        )
        session.add(row)
        session.commit()
        return row

    return made


@pytest.fixture
def run_deliveries(rolled_back_app, authority):
    """Makes deliveries of what happened and sends all that are due, as the senders would."""
    context = create_ssl_context(authority.pem)

    def do():
        session.commit()
        queued_calls.clear()
        webhooks.fan_out()
        while claimed := [
            *delivery_queue.claim_subscriptions("test", is_fast=True, maximum=100),
            *delivery_queue.claim_subscriptions("test", is_fast=False, maximum=100),
        ]:
            session.commit()
            for subscription in claimed:
                DeliveryRun(subscription, "test", context).serve()
        session.commit()
        session.expire_all()

    return do


@pytest.fixture
def advance_clock(monkeypatch):
    """Lets the clock go on: `moved(seconds=10)`."""
    real, passed = clock.now, [timedelta()]
    monkeypatch.setattr(clock, "now", lambda: real() + passed[0])

    def go_on(**time):
        passed[0] += timedelta(**time)

    return go_on


@pytest.fixture
def deliveries(rolled_back_app):
    """All of them, or those of a subscription, oldest first."""

    def rows(subscription=None):
        session.expire_all()
        found = session.query(WebhookDelivery).order_by(WebhookDelivery.id)
        return found.filter_by(subscription_id=subscription.id).all() if subscription else found.all()

    return rows


class FakeCluster:
    """What an event needs to know of a Kubernetes cluster."""

    def __init__(self, account, id="11111111-1111-4111-8111-111111111111", name="Prod"):
        self.account_id, self.id, self.name, self.slug = account.id, id, name, name.lower()


@pytest.fixture
def emit_cluster_event(cast):
    """Something happens to a cluster of the owner's."""

    def record(kind, cluster=None, severity="info", message="Something happened.", **data):
        cluster = cluster or FakeCluster(cast.owner)
        made = events.record(
            kind, "kubernetes_cluster", cluster, actor="test", severity=severity, message=message, **data
        )
        session.commit()
        return made

    return record
