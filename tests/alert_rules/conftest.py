"""Fixtures of the alert tests: rules, channels and measured values at a time that the test moves."""

from datetime import timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models.metrics import METRIC_NAMES
from panel.services import alert_rules, metrics, notification_channels
from tests.alert_rules.values import RULE
from tests.support.webhook_receiver import CertificateAuthority, Receiver
from worker.tasks import alert_rules as tasks


@pytest.fixture
def create_rule(cast):
    def create(caller="owner", **values):
        rule = alert_rules.create(getattr(cast, caller), **{**RULE, **values})
        session.commit()
        return rule

    return create


@pytest.fixture
def create_channel(cast):
    def create(caller="owner", type="mail", config=None, **values):
        channel = notification_channels.create(
            getattr(cast, caller), type=type, config=config or {}, **{"name": "on call", **values}
        )
        session.commit()
        return channel

    return create


@pytest.fixture
def evaluate_at(rolled_back_app, monkeypatch):
    """Return a function that evaluates at a minute, after the instance used so much CPU; None: nothing was measured."""
    start = clock.now()

    def evaluate(minute, cpu_percent=None, instance=None, **values):
        now = start + timedelta(minutes=minute)
        monkeypatch.setattr(clock, "now", lambda: now)
        if cpu_percent is not None:
            sample = dict.fromkeys(METRIC_NAMES, 0.0) | {"cpu_percent": cpu_percent} | values
            metrics.write({instance.id: sample}, now.timestamp() - 20)
            session.commit()
        tasks.evaluate_all()
        session.expire_all()

    return evaluate


@pytest.fixture(scope="session")
def alert_authority():
    return CertificateAuthority()


@pytest.fixture
def receiver(alert_authority, tmp_path, change_config):
    change_config(webhook_allowed_networks="127.0.0.0/8", webhook_ca=alert_authority.pem)
    receiver = Receiver(alert_authority.issue(tmp_path))
    yield receiver
    receiver.close()
