"""Requests with the same Idempotency-Key are executed once, on every surface."""

from datetime import timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import AuditEntry, IdempotencyKey, Instance
from worker.engine import purge

IDEMPOTENCY_HEADERS = {"Idempotency-Key": "order-7"}


@pytest.fixture
def order_instance(api_as, cast):
    """Return a function that orders an instance with a deploy, as a billing system. The answer contains a password."""

    def send_order(headers=IDEMPOTENCY_HEADERS, **fields):
        body = {
            "user_id": cast.owner.id,
            "location_id": cast.location.id,
            "plan_id": cast.plan.id,
            "image_id": cast.image.id,
        }
        return api_as("billing", "POST", "/api/v1/billing/instances", json={**body, **fields}, headers=headers)

    return send_order


def count_rows(model):
    return session.query(model).count()


def test_repeated_order_creates_one_instance(order_instance):
    """ERR-02: the answer is the one of the first request, including the password, with a header."""
    first = order_instance()
    instances, entries = count_rows(Instance), count_rows(AuditEntry)
    again = order_instance()
    assert (again.status_code, again.json) == (200, first.json)
    assert again.json["data"]["password"]
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert (count_rows(Instance), count_rows(AuditEntry)) == (instances, entries)


def test_stored_answer_is_encrypted(rolled_back_app, order_instance):
    password = order_instance().json["data"]["password"]
    answers = session.connection().exec_driver_sql("select answer from idempotency_keys").scalars().all()
    assert len(answers) == 1
    assert password not in answers[0]


def test_idempotency_key_with_different_body_is_refused(order_instance):
    order_instance()
    instances = count_rows(Instance)
    refused = order_instance(hostname="other.example.com")
    assert refused.status_code == 422
    assert "Idempotency-Key" in refused.json["message"]
    assert count_rows(Instance) == instances


def test_refused_request_stores_no_idempotency_key(order_instance):
    assert order_instance(plan_id="nothing").status_code == 422
    assert count_rows(IdempotencyKey) == 0
    assert order_instance().status_code == 200


def test_idempotency_keys_are_separate_for_each_token(api_as, cast):
    project = {"name": "Shop"}
    for caller in ("owner", "outsider"):
        assert (
            api_as(caller, "POST", "/api/projects", json=project, headers=IDEMPOTENCY_HEADERS).json["project"]["name"]
            == "Shop"
        )
    assert count_rows(IdempotencyKey) == 2


def test_orders_without_idempotency_key_are_separate(order_instance):
    assert order_instance(headers={}).json != order_instance(headers={}).json


@pytest.mark.parametrize("wrong", ["", "x" * 256, "ä"])
def test_idempotency_key_must_be_short_ascii_text(order_instance, wrong):
    assert order_instance(headers={"Idempotency-Key": wrong.encode().decode("latin-1")}).status_code == 422


def test_idempotency_key_expires_after_a_day(order_instance, monkeypatch):
    first = order_instance()
    later = clock.now() + timedelta(hours=25)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert order_instance().json != first.json
    monkeypatch.setattr(clock, "now", lambda: later + timedelta(hours=25))
    purge.purge_expired()
    assert count_rows(IdempotencyKey) == 0
