"""The ledger: what is written adds up and stays, by the operators' API and under many hands at once."""

import threading
from decimal import Decimal
from itertools import accumulate

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.exc import DBAPIError

from panel.core.db import session
from panel.core.errors import Invalid
from panel.models import Account, CreditLedgerEntry
from panel.services import accounts, credits
from tests.support.isolated_app import isolated_installation

CREDITS = "/api/v1/cloud-service/credits"


def find_entry(id_):
    return f"/api/v1/cloud-service/credit/{id_}"


@pytest.fixture
def grant_credit(api_as, cast):
    """Credit for the owner; returns the answer."""

    def give(amount=25.5, **more):
        headers = more.pop("headers", {})
        body = {"user_id": cast.owner.id, "amount": amount, **more}
        return api_as("admin", "POST", CREDITS, json=body, headers=headers)

    return give


def test_credit_is_given_and_listed(api_as, cast, grant_credit):
    made = grant_credit(25.5, description="Bank transfer", reference="INV-1").json["data"]
    assert (made["amount"], made["balance_after"], made["kind"], made["reference"]) == (25.5, 25.5, "credit", "INV-1")
    assert made["actor"] == "API token test"
    grant_credit(4.5, kind="refund")
    grant_credit(-10, kind="adjustment")
    assert api_as("admin", "GET", f"/api/v1/billing/user/{cast.owner.id}").status_code == 403
    shown = api_as("billing", "GET", f"/api/v1/billing/user/{cast.owner.id}").json["data"]
    assert shown["balance"] == 20
    listed = api_as("admin", "GET", f"{CREDITS}?user_id={cast.owner.id}").json
    assert [row["amount"] for row in listed["data"]] == [-10, 4.5, 25.5]
    assert listed["meta"]["total"] == 3
    assert api_as("admin", "GET", f"{CREDITS}?user_id={cast.outsider.id}").json["data"] == []


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
def test_an_invalid_ledger_entry_names_the_field(api_as, cast, body):
    answer = api_as("admin", "POST", CREDITS, json={"user_id": cast.owner.id, **body})
    assert answer.status_code == 422
    assert answer.json["errors"].keys() <= {"amount", "kind", "user_id", "else"}
    assert session.scalar(select(func.count(CreditLedgerEntry.id))) == 0


def test_a_changed_credit_is_posted_as_the_difference(api_as, cast, grant_credit):
    first = grant_credit(25).json["data"]
    changed = api_as("admin", "PATCH", find_entry(first["id"]), json={"amount": 20}).json["data"]
    assert (changed["kind"], changed["amount"], changed["corrects_id"]) == ("adjustment", -5, first["id"])
    again = api_as("admin", "PATCH", find_entry(first["id"]), json={"amount": 20}).json["data"]
    assert again["id"] == first["id"]  # nothing is left to change
    back = api_as("admin", "DELETE", find_entry(first["id"])).json["data"]
    assert (back["amount"], back["balance_after"]) == (-20, 0)
    assert api_as("admin", "DELETE", find_entry(changed["id"])).status_code == 409
    assert api_as("admin", "DELETE", find_entry("nothing")).status_code == 404
    usage = credits.post_entry(cast.owner, "usage", Decimal("-1"), actor="system", month="2026-11")
    session.commit()
    assert api_as("admin", "DELETE", find_entry(usage.id)).status_code == 409
    kinds = [row["kind"] for row in api_as("admin", "GET", "/api/v1/cloud-service/credit-history").json["data"]]
    assert kinds == ["usage", "adjustment", "adjustment", "credit"]


def test_a_repeated_key_posts_one_entry(api_as, cast, grant_credit):
    key = {"Idempotency-Key": "payment-1"}
    first, again = grant_credit(10, headers=key), grant_credit(10.0, headers=key)
    assert (first.status_code, first.json) == (again.status_code, again.json)
    other = grant_credit(11, headers=key)
    assert other.status_code == 422
    assert "Idempotency-Key" in other.json["message"]
    assert grant_credit(10, headers={"Idempotency-Key": "payment-2"}).json["data"]["balance_after"] == 20
    somebody = api_as("admin", "POST", CREDITS, json={"user_id": cast.outsider.id, "amount": 3}, headers=key)
    assert somebody.json["data"]["balance_after"] == 3  # keys belong to an account
    for wrong in ("", "x" * 256, "ä"):
        assert grant_credit(10, headers={"Idempotency-Key": wrong.encode().decode("latin-1")}).status_code == 422


def test_the_database_refuses_to_rewrite_the_ledger(rolled_back_app, cast, grant_credit):
    grant_credit(10)
    for statement in ("update credits set amount = 0", "delete from credits"):
        with pytest.raises(DBAPIError, match="only added"), session.begin_nested():
            session.execute(text(statement))


def test_nobody_can_be_charged_less_than_nothing(rolled_back_app, cast):
    with pytest.raises(Invalid):
        credits.grant(cast.owner, amount=Decimal(-1), actor="test")


THREADS, CREDITS_PER_THREAD = 8, 15


def run_in_threads(app, deed):
    """Has as many threads as there are hands do something, each in a session of its own."""
    ready, failures = threading.Barrier(THREADS), []

    def hand(number):
        ready.wait()
        with app.app_context():
            try:
                deed(number)
            except Exception as error:
                failures.append(error)
            finally:
                session.remove()

    hands = [threading.Thread(target=hand, args=(number,)) for number in range(THREADS)]
    for each in hands:
        each.start()
    for each in hands:
        each.join()
    assert failures == []


def test_entries_that_are_written_at_once_add_up(tmp_path):
    """On real threads with real commits: no entry is lost, and each says the balance that it made."""
    with isolated_installation(tmp_path) as app:
        with app.app_context():
            account_id = accounts.create(email="busy@example.com").id
            session.commit()

        def write(number):
            for step in range(CREDITS_PER_THREAD):
                account = session.get(Account, account_id)
                amount = Decimal(number * CREDITS_PER_THREAD + step + 1) / 100
                if step % 3:
                    credits.post_entry(account, "usage", -amount, actor="system", month="2026-11")
                else:
                    credits.grant(account, amount=amount, actor="test")
                session.commit()

        run_in_threads(app, write)
        with app.app_context():
            entries = session.scalars(select(CreditLedgerEntry).order_by(CreditLedgerEntry.id)).all()
            balance = session.scalar(select(Account.balance).where(Account.id == account_id))
            assert len(entries) == THREADS * CREDITS_PER_THREAD
            assert balance == sum(each.amount for each in entries) != 0
            assert list(accumulate(each.amount for each in entries)) == [each.balance_after for each in entries]


def test_parallel_requests_with_one_key_post_one_entry(tmp_path):
    with isolated_installation(tmp_path) as app:
        with app.app_context():
            account_id = accounts.create(email="busy@example.com").id
            session.commit()
        made = []

        def give(number):
            entry = credits.grant(
                session.get(Account, account_id), amount=Decimal(5), actor="test", idempotency_key="payment-1"
            )
            session.commit()
            made.append(entry.id)

        run_in_threads(app, give)
        assert len(made) == THREADS
        assert len(set(made)) == 1
        with app.app_context():
            assert session.scalar(select(Account.balance).where(Account.id == account_id)) == 5


def test_the_ledger_of_somebody_who_is_gone_by_then_is_closed(api_as, cast, monkeypatch):
    monkeypatch.setattr(credits, "lock_account", lambda account_id: None)
    answer = api_as("admin", "POST", CREDITS, json={"user_id": cast.owner.id, "amount": 5})
    assert (answer.status_code, answer.json["message"]) == (409, credits.ACCOUNT_GONE_MESSAGE)
