"""What is sent again with the same Idempotency-Key is done once, on every surface."""

from datetime import timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import AuditEntry, IdempotencyKey, Instance
from worker.engine import purge

IDEMPOTENCY_HEADERS = {"Idempotency-Key": "order-7"}


@pytest.fixture
def order(api_as, cast):
    """A billing system's order of an instance with a deploy, whose answer holds a password."""

    def sent(headers=IDEMPOTENCY_HEADERS, **more):
        body = {
            "user_id": cast.owner.id,
            "location_id": cast.location.id,
            "plan_id": cast.plan.id,
            "image_id": cast.image.id,
        }
        return api_as("billing", "POST", "/api/v1/billing/instances", json={**body, **more}, headers=headers)

    return sent


def count_rows(model):
    return session.query(model).count()


def test_an_order_that_is_sent_again_makes_no_second_instance(order):
    """ERR-02: the answer is that of the first, its password included, and says that it is."""
    first = order()
    made, entries = count_rows(Instance), count_rows(AuditEntry)
    again = order()
    assert (again.status_code, again.json) == (200, first.json)
    assert again.json["data"]["password"]
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert (count_rows(Instance), count_rows(AuditEntry)) == (made, entries)


def test_the_kept_answer_is_encrypted(rolled_back_app, order):
    password = order().json["data"]["password"]
    kept = session.connection().exec_driver_sql("select answer from idempotency_keys").scalars().all()
    assert len(kept) == 1
    assert password not in kept[0]


def test_the_key_with_another_request_is_refused(order):
    order()
    made = count_rows(Instance)
    refused = order(hostname="other.example.com")
    assert refused.status_code == 422
    assert "Idempotency-Key" in refused.json["message"]
    assert count_rows(Instance) == made


def test_a_refused_request_may_be_corrected_and_repeated(order):
    assert order(plan_id="nothing").status_code == 422
    assert count_rows(IdempotencyKey) == 0
    assert order().status_code == 200


def test_keys_belong_to_a_token(api_as, cast):
    project = {"name": "Shop"}
    for who in ("owner", "outsider"):
        assert (
            api_as(who, "POST", "/api/projects", json=project, headers=IDEMPOTENCY_HEADERS).json["project"]["name"]
            == "Shop"
        )
    assert count_rows(IdempotencyKey) == 2


def test_without_a_key_a_second_request_is_a_second_order(order):
    assert order(headers={}).json != order(headers={}).json


@pytest.mark.parametrize("wrong", ["", "x" * 256, "ä"])
def test_a_key_is_plain_text(order, wrong):
    assert order(headers={"Idempotency-Key": wrong.encode().decode("latin-1")}).status_code == 422


def test_a_key_is_forgotten_after_a_day(order, monkeypatch):
    first = order()
    later = clock.now() + timedelta(hours=25)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert order().json != first.json
    monkeypatch.setattr(clock, "now", lambda: later + timedelta(hours=25))
    purge.purge_expired()
    assert count_rows(IdempotencyKey) == 0
