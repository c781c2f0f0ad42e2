"""The ledger: what is written adds up and stays, by the operators' API and under many hands at once."""

import threading
from decimal import Decimal
from itertools import accumulate

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.exc import DBAPIError

from panel.core.db import session
from panel.core.errors import Invalid
from panel.models import Account, CreditEntry
from panel.services import accounts, credits
from tests.support.isolated_app import installation

CREDITS = "/api/v1/cloud-service/credits"


def entry(id_):
    return f"/api/v1/cloud-service/credit/{id_}"


@pytest.fixture
def given(as_, cast):
    """Credit for the owner; returns the answer."""

    def give(amount=25.5, **more):
        headers = more.pop("headers", {})
        body = {"user_id": cast.owner.id, "amount": amount, **more}
        return as_("admin", "POST", CREDITS, json=body, headers=headers)

    return give


def test_credit_is_given_and_listed(as_, cast, given):
    made = given(25.5, description="Bank transfer", reference="INV-1").json["data"]
    assert (made["amount"], made["balance_after"], made["kind"], made["reference"]) == (25.5, 25.5, "credit", "INV-1")
    assert made["actor"] == "API token test"
    given(4.5, kind="refund")
    given(-10, kind="adjustment")
    assert as_("admin", "GET", f"/api/v1/billing/user/{cast.owner.id}").status_code == 403
    shown = as_("billing", "GET", f"/api/v1/billing/user/{cast.owner.id}").json["data"]
    assert shown["balance"] == 20
    listed = as_("admin", "GET", f"{CREDITS}?user_id={cast.owner.id}").json
    assert [row["amount"] for row in listed["data"]] == [-10, 4.5, 25.5]
    assert listed["meta"]["total"] == 3
    assert as_("admin", "GET", f"{CREDITS}?user_id={cast.outsider.id}").json["data"] == []


@pytest.mark.parametrize(
    "body",
    [
        {"amount": 0},
        {"amount": -1},
        {"amount": -1, "kind": "refund"},
        {"amount": 0.001},
        {"amount": True},
        {"amount": "NaN"},
        {"amount": 1e300},
        {"amount": 20_000_000},
        {"amount": "1,50"},
        {"amount": 1, "kind": "usage"},
        {"amount": 1, "user_id": "nobody"},
        {"amount": 1, "else": 1},
        {},
    ],
)
def test_what_cannot_be_booked_is_refused_with_the_field(as_, cast, body):
    answer = as_("admin", "POST", CREDITS, json={"user_id": cast.owner.id, **body})
    assert answer.status_code == 422
    assert answer.json["errors"].keys() <= {"amount", "kind", "user_id", "else"}
    assert session.scalar(select(func.count(CreditEntry.id))) == 0


def test_a_change_is_booked_as_the_difference(as_, cast, given):
    first = given(25).json["data"]
    changed = as_("admin", "PATCH", entry(first["id"]), json={"amount": 20}).json["data"]
    assert (changed["kind"], changed["amount"], changed["corrects_id"]) == ("adjustment", -5, first["id"])
    again = as_("admin", "PATCH", entry(first["id"]), json={"amount": 20}).json["data"]
    assert again["id"] == first["id"]  # nothing is left to change
    back = as_("admin", "DELETE", entry(first["id"])).json["data"]
    assert (back["amount"], back["balance_after"]) == (-20, 0)
    assert as_("admin", "DELETE", entry(changed["id"])).status_code == 409
    assert as_("admin", "DELETE", entry("nothing")).status_code == 404
    usage = credits.write(cast.owner, "usage", Decimal("-1"), actor="system", month="2026-11")
    session.commit()
    assert as_("admin", "DELETE", entry(usage.id)).status_code == 409
    kinds = [row["kind"] for row in as_("admin", "GET", "/api/v1/cloud-service/credit-history").json["data"]]
    assert kinds == ["usage", "adjustment", "adjustment", "credit"]


def test_the_same_key_books_once(as_, cast, given):
    key = {"Idempotency-Key": "payment-1"}
    first, again = given(10, headers=key), given(10.0, headers=key)
    assert (first.status_code, first.json) == (again.status_code, again.json)
    other = given(11, headers=key)
    assert other.status_code == 422
    assert "Idempotency-Key" in other.json["message"]
    assert given(10, headers={"Idempotency-Key": "payment-2"}).json["data"]["balance_after"] == 20
    somebody = as_("admin", "POST", CREDITS, json={"user_id": cast.outsider.id, "amount": 3}, headers=key)
    assert somebody.json["data"]["balance_after"] == 3  # keys belong to an account
    for wrong in ("", "x" * 256, "ä"):
        assert given(10, headers={"Idempotency-Key": wrong.encode().decode("latin-1")}).status_code == 422


def test_the_database_refuses_to_rewrite_the_ledger(world, cast, given):
    given(10)
    for statement in ("update credits set amount = 0", "delete from credits"):
        with pytest.raises(DBAPIError, match="only added"), session.begin_nested():
            session.execute(text(statement))


def test_nobody_can_be_charged_less_than_nothing(world, cast):
    with pytest.raises(Invalid):
        credits.give(cast.owner, amount=Decimal(-1), actor="test")


HANDS, EACH = 8, 15


def at_once(app, deed):
    """Has as many threads as there are hands do something, each in a session of its own."""
    ready, failures = threading.Barrier(HANDS), []

    def hand(number):
        ready.wait()
        with app.app_context():
            try:
                deed(number)
            except Exception as error:
                failures.append(error)
            finally:
                session.remove()

    hands = [threading.Thread(target=hand, args=(number,)) for number in range(HANDS)]
    for each in hands:
        each.start()
    for each in hands:
        each.join()
    assert failures == []


def test_entries_that_are_written_at_once_add_up(tmp_path):
    """On real threads with real commits: no entry is lost, and each says the balance that it made."""
    with installation(tmp_path) as app:
        with app.app_context():
            account_id = accounts.create(email="busy@example.com").id
            session.commit()

        def write(number):
            for step in range(EACH):
                account = session.get(Account, account_id)
                amount = Decimal(number * EACH + step + 1) / 100
                if step % 3:
                    credits.write(account, "usage", -amount, actor="system", month="2026-11")
                else:
                    credits.give(account, amount=amount, actor="test")
                session.commit()

        at_once(app, write)
        with app.app_context():
            entries = session.scalars(select(CreditEntry).order_by(CreditEntry.id)).all()
            balance = session.scalar(select(Account.balance).where(Account.id == account_id))
            assert len(entries) == HANDS * EACH
            assert balance == sum(each.amount for each in entries) != 0
            assert list(accumulate(each.amount for each in entries)) == [each.balance_after for each in entries]


def test_one_key_from_many_hands_books_once(tmp_path):
    with installation(tmp_path) as app:
        with app.app_context():
            account_id = accounts.create(email="busy@example.com").id
            session.commit()
        made = []

        def give(number):
            entry = credits.give(session.get(Account, account_id), amount=Decimal(5), actor="test", key="payment-1")
            session.commit()
            made.append(entry.id)

        at_once(app, give)
        assert len(made) == HANDS
        assert len(set(made)) == 1
        with app.app_context():
            assert session.scalar(select(Account.balance).where(Account.id == account_id)) == 5


def test_the_ledger_of_somebody_who_is_gone_by_then_is_closed(as_, cast, monkeypatch):
    monkeypatch.setattr(credits, "lock", lambda account_id: None)
    answer = as_("admin", "POST", CREDITS, json={"user_id": cast.owner.id, "amount": 5})
    assert (answer.status_code, answer.json["message"]) == (409, credits.GONE)
