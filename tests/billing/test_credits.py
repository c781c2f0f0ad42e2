"""The credit ledger: balances, corrections and concurrent entries."""

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

CREDITS_PATH = "/api/v1/cloud-service/credits"


def make_entry_path(entry_id):
    return f"/api/v1/cloud-service/credit/{entry_id}"


@pytest.fixture
def grant_credit(api_as, cast):
    """Return a function that grants credit to the owner and returns the answer."""

    def grant(amount=25.5, **fields):
        headers = fields.pop("headers", {})
        body = {"user_id": cast.owner.id, "amount": amount, **fields}
        return api_as("admin", "POST", CREDITS_PATH, json=body, headers=headers)

    return grant


def test_granted_credit_is_listed_and_added_to_balance(api_as, cast, grant_credit):
    entry = grant_credit(25.5, description="Bank transfer", reference="INV-1").json["data"]
    assert (entry["amount"], entry["balance_after"], entry["kind"], entry["reference"]) == (
        25.5,
        25.5,
        "credit",
        "INV-1",
    )
    assert entry["actor"] == "API token test"
    grant_credit(4.5, kind="refund")
    grant_credit(-10, kind="adjustment")
    assert api_as("admin", "GET", f"/api/v1/billing/user/{cast.owner.id}").status_code == 403
    user = api_as("billing", "GET", f"/api/v1/billing/user/{cast.owner.id}").json["data"]
    assert user["balance"] == 20
    listed = api_as("admin", "GET", f"{CREDITS_PATH}?user_id={cast.owner.id}").json
    assert [row["amount"] for row in listed["data"]] == [-10, 4.5, 25.5]
    assert listed["meta"]["total"] == 3
    assert api_as("admin", "GET", f"{CREDITS_PATH}?user_id={cast.outsider.id}").json["data"] == []


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
def test_invalid_ledger_entry_is_a_field_error(api_as, cast, body):
    answer = api_as("admin", "POST", CREDITS_PATH, json={"user_id": cast.owner.id, **body})
    assert answer.status_code == 422
    assert answer.json["errors"].keys() <= {"amount", "kind", "user_id", "else"}
    assert session.scalar(select(func.count(CreditLedgerEntry.id))) == 0


def test_changed_credit_is_posted_as_adjustment(api_as, cast, grant_credit):
    first = grant_credit(25).json["data"]
    changed = api_as("admin", "PATCH", make_entry_path(first["id"]), json={"amount": 20}).json["data"]
    assert (changed["kind"], changed["amount"], changed["corrects_id"]) == ("adjustment", -5, first["id"])
    again = api_as("admin", "PATCH", make_entry_path(first["id"]), json={"amount": 20}).json["data"]
    assert again["id"] == first["id"]  # the amount is already 20
    back = api_as("admin", "DELETE", make_entry_path(first["id"])).json["data"]
    assert (back["amount"], back["balance_after"]) == (-20, 0)
    assert api_as("admin", "DELETE", make_entry_path(changed["id"])).status_code == 409
    assert api_as("admin", "DELETE", make_entry_path("nothing")).status_code == 404
    usage = credits.post_entry(cast.owner, "usage", Decimal("-1"), actor="system", month="2026-11")
    session.commit()
    assert api_as("admin", "DELETE", make_entry_path(usage.id)).status_code == 409
    kinds = [row["kind"] for row in api_as("admin", "GET", "/api/v1/cloud-service/credit-history").json["data"]]
    assert kinds == ["usage", "adjustment", "adjustment", "credit"]


def test_repeated_idempotency_key_posts_one_entry(api_as, cast, grant_credit):
    key = {"Idempotency-Key": "payment-1"}
    first, again = grant_credit(10, headers=key), grant_credit(10.0, headers=key)
    assert (first.status_code, first.json) == (again.status_code, again.json)
    other = grant_credit(11, headers=key)
    assert other.status_code == 422
    assert "Idempotency-Key" in other.json["message"]
    assert grant_credit(10, headers={"Idempotency-Key": "payment-2"}).json["data"]["balance_after"] == 20
    outsider_answer = api_as(
        "admin", "POST", CREDITS_PATH, json={"user_id": cast.outsider.id, "amount": 3}, headers=key
    )
    assert outsider_answer.json["data"]["balance_after"] == 3  # keys are separate for each account
    for wrong in ("", "x" * 256, "ä"):
        assert grant_credit(10, headers={"Idempotency-Key": wrong.encode().decode("latin-1")}).status_code == 422


def test_database_refuses_to_change_ledger_entries(rolled_back_app, cast, grant_credit):
    grant_credit(10)
    for statement in ("update credits set amount = 0", "delete from credits"):
        with pytest.raises(DBAPIError, match="only added"), session.begin_nested():
            session.execute(text(statement))


def test_negative_credit_is_refused(rolled_back_app, cast):
    with pytest.raises(Invalid):
        credits.grant(cast.owner, amount=Decimal(-1), actor="test")


THREAD_COUNT, CREDITS_PER_THREAD = 8, 15


def run_in_threads(app, function):
    """Call `function(number)` in THREADS concurrent threads, each with its own session."""
    ready, failures = threading.Barrier(THREAD_COUNT), []

    def run_thread(number):
        ready.wait()
        with app.app_context():
            try:
                function(number)
            except Exception as error:
                failures.append(error)
            finally:
                session.remove()

    threads = [threading.Thread(target=run_thread, args=(number,)) for number in range(THREAD_COUNT)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_concurrent_ledger_entries_add_up(tmp_path):
    """With threads that commit: no entry is lost, and each has the balance after it."""
    with isolated_installation(tmp_path) as app:
        with app.app_context():
            account_id = accounts.create(email="busy@example.com").id
            session.commit()

        def add_entries(number):
            for step in range(CREDITS_PER_THREAD):
                account = session.get(Account, account_id)
                amount = Decimal(number * CREDITS_PER_THREAD + step + 1) / 100
                if step % 3:
                    credits.post_entry(account, "usage", -amount, actor="system", month="2026-11")
                else:
                    credits.grant(account, amount=amount, actor="test")
                session.commit()

        run_in_threads(app, add_entries)
        with app.app_context():
            entries = session.scalars(select(CreditLedgerEntry).order_by(CreditLedgerEntry.id)).all()
            balance = session.scalar(select(Account.balance).where(Account.id == account_id))
            assert len(entries) == THREAD_COUNT * CREDITS_PER_THREAD
            assert balance == sum(entry.amount for entry in entries) != 0
            assert list(accumulate(entry.amount for entry in entries)) == [entry.balance_after for entry in entries]


def test_concurrent_grants_with_one_key_post_one_entry(tmp_path):
    with isolated_installation(tmp_path) as app:
        with app.app_context():
            account_id = accounts.create(email="busy@example.com").id
            session.commit()
        entry_ids = []

        def grant(number):
            entry = credits.grant(
                session.get(Account, account_id), amount=Decimal(5), actor="test", idempotency_key="payment-1"
            )
            session.commit()
            entry_ids.append(entry.id)

        run_in_threads(app, grant)
        assert len(entry_ids) == THREAD_COUNT
        assert len(set(entry_ids)) == 1
        with app.app_context():
            assert session.scalar(select(Account.balance).where(Account.id == account_id)) == 5


def test_credit_for_deleted_account_is_refused(api_as, cast, monkeypatch):
    monkeypatch.setattr(credits, "lock_account", lambda account_id: None)
    answer = api_as("admin", "POST", CREDITS_PATH, json={"user_id": cast.owner.id, "amount": 5})
    assert (answer.status_code, answer.json["message"]) == (409, credits.ACCOUNT_GONE_MESSAGE)
