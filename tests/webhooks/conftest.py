"""Receivers that trust is given to, and a sender that works when it is told to."""

from datetime import timedelta
from ipaddress import ip_network

import pytest

from panel.core import clock, events
from panel.core.db import session
from panel.models import WebhookDelivery, WebhookSubscription
from panel.services.webhooks import delivery_queue, url_policy
from tests.conftest import bells
from tests.support.webhook_receiver import Authority, Receiver
from worker import webhooks
from worker.webhooks.connection import trust
from worker.webhooks.delivery_run import Run

SECRET = "a secret of the tests"


@pytest.fixture(scope="session")
def authority():
    return Authority()


@pytest.fixture(scope="session")
def certificate(authority, tmp_path_factory):
    return authority.issue(tmp_path_factory.mktemp("receiver"))


@pytest.fixture
def laboratory(monkeypatch):
    """This machine is taken for public."""
    monkeypatch.setattr(url_policy, "allowed", (ip_network("127.0.0.0/8"),))


@pytest.fixture
def receiver(certificate, laboratory):
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
            **{"url": receiver.url(), "secret": SECRET, "event_kinds": ["*"], **values},
        )
        session.add(row)
        session.commit()
        return row

    return made


@pytest.fixture
def send(world, authority):
    """Makes deliveries of what happened and sends all that are due, as the senders would."""
    context = trust(authority.pem)

    def do():
        session.commit()
        bells.clear()
        webhooks.spread()
        while claimed := [
            *delivery_queue.claim("test", quick=True, most=100),
            *delivery_queue.claim("test", quick=False, most=100),
        ]:
            session.commit()
            for subscription in claimed:
                Run(subscription, "test", context).serve()
        session.commit()
        session.expire_all()

    return do


@pytest.fixture
def moved(monkeypatch):
    """Lets the clock go on: `moved(seconds=10)`."""
    real, passed = clock.now, [timedelta()]
    monkeypatch.setattr(clock, "now", lambda: real() + passed[0])

    def go_on(**time):
        passed[0] += timedelta(**time)

    return go_on


@pytest.fixture
def deliveries(world):
    """All of them, or those of a subscription, oldest first."""

    def rows(subscription=None):
        session.expire_all()
        found = session.query(WebhookDelivery).order_by(WebhookDelivery.id)
        return found.filter_by(subscription_id=subscription.id).all() if subscription else found.all()

    return rows


class Cluster:
    """What an event needs to know of a Kubernetes cluster."""

    def __init__(self, account, id="11111111-1111-4111-8111-111111111111", name="Prod"):
        self.account_id, self.id, self.name, self.slug = account.id, id, name, name.lower()


@pytest.fixture
def happens(cast):
    """Something happens to a cluster of the owner's."""

    def record(kind, cluster=None, severity="info", message="Something happened.", **data):
        cluster = cluster or Cluster(cast.owner)
        made = events.record(
            kind, "kubernetes_cluster", cluster, actor="test", severity=severity, message=message, **data
        )
        session.commit()
        return made

    return record
