"""The billing pages of customers and operators, and the usage reports of the APIs."""

import csv
import io
from decimal import Decimal

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import CreditLedgerEntry, UsageMonth
from panel.services import credits, usage

PARTIAL_HEADERS = {"HX-Request": "true", "HX-Request-Type": "partial"}
BILLING_PATHS = ("/billing", "/billing/entries")
ADMIN_PATH = "/admin/billing"


def add_usage(account, name="web", month=None, charge="3.682192", mode="cloud_service"):
    row = UsageMonth(
        resource_id=f"id-{name}",
        month=month or usage.make_month_key(clock.now()),
        account_id=account.id,
        resource_type="instance",
        resource_name=name,
        plan="S",
        price=Decimal(4),
        billing_mode=mode,
        hours=672,
        charge=Decimal(charge),
        last_hour=usage.truncate_to_hour(clock.now()),
    )
    session.add(row)
    session.commit()
    return row


@pytest.fixture
def ledger_entries(cast):
    credits.grant(cast.owner, amount=Decimal("10"), actor="test", description="Bank transfer", reference="INV-1")
    credits.post_entry(cast.owner, "usage", Decimal("-3.68"), actor="system", description="Usage", month="2026-02")
    session.commit()


def test_billing_page_shows_balance_and_usage_of_customer(browser_as, cast, billing_enabled, ledger_entries):
    add_usage(cast.owner, "shop")
    add_usage(cast.outsider, "theirs")
    page = browser_as("owner").get("/billing").text
    assert all(words in page for words in ("shop", "€6.32", "€3.68", "672"))
    assert "theirs" not in page
    assert "switched off" not in page
    ledger = browser_as("owner").get("/billing/entries").text
    assert all(words in ledger for words in ("Bank transfer", "INV-1", "+€10.00", "-€3.68"))
    assert "Bank transfer" not in browser_as("outsider").get("/billing/entries").text


def test_billing_page_shows_requested_month(browser_as, cast, billing_enabled):
    add_usage(cast.owner, "warehouse", month="2026-01")
    browser = browser_as("owner")
    assert "warehouse" not in browser.get("/billing").text
    part = browser.get("/billing?month=2026-01", headers=PARTIAL_HEADERS).text
    assert "warehouse" in part
    assert "<html" not in part
    assert '<option value="2026-01" selected>January 2026' in part
    for wrong in ("2026-13", "x", "2026-01'"):
        assert browser.get(f"/billing?month={wrong}").status_code == 404


@pytest.mark.parametrize("path", [*BILLING_PATHS, "/billing/usage.csv", "/billing/entries.csv"])
def test_billing_pages_require_billing_view(browser_as, path):
    assert browser_as("member").get(path).status_code == 200
    refused = browser_as("viewer").get(path)
    assert refused.status_code == 403
    assert "billing.view" in refused.text


def test_billing_page_explains_missing_billing(browser_as, cast):
    assert "Billing is disabled" in browser_as("owner").get("/billing").text
    cast.owner.self_provisioning = True
    session.commit()
    assert "This account is not billed" in browser_as("owner").get("/billing").text


def test_billing_pages_without_usage(browser_as, billing_enabled):
    assert "No usage" in browser_as("owner").get("/billing").text
    assert "No entries yet" in browser_as("owner").get("/billing/entries").text


def test_csv_files_have_all_rows_and_escaped_formulas(browser_as, cast, ledger_entries):
    add_usage(cast.owner, '=HYPERLINK("http://x")', charge="3.682192")
    answer = browser_as("owner").get("/billing/usage.csv")
    assert answer.mimetype == "text/csv"
    assert answer.headers["Content-Disposition"].startswith('attachment; filename="usage-')
    (row,) = csv.DictReader(io.StringIO(answer.text.removeprefix("\ufeff")))
    assert row["resource_name"] == '\'=HYPERLINK("http://x")'
    assert (row["hours"], row["charge"]) == ("672", "3.682192")
    rows = list(
        csv.DictReader(io.StringIO(browser_as("owner").get("/billing/entries.csv").text.removeprefix("\ufeff")))
    )
    assert [row["amount"] for row in rows] == ["-3.680000", "10.000000"]  # amounts are not escaped as text
    assert rows[1]["balance_after"] == "10.000000"


def test_operator_posts_and_reverses_credit(browser_as, cast):
    page = f"{ADMIN_PATH}/customers/{cast.owner.id}"
    browser = browser_as("admin")
    assert "No ledger entries yet" in browser.get(page).text
    wrong = browser.post(page, data={"kind": "credit", "amount": "-5"})
    assert wrong.status_code == 422
    assert "Must be more than 0" in wrong.text
    answer = browser.post(page, data={"kind": "credit", "amount": "25.50", "description": "Paid", "reference": ""})
    assert (answer.status_code, answer.headers["Location"]) == (303, page)
    entry = session.scalar(select(CreditLedgerEntry))
    assert (entry.amount, entry.actor, entry.reference) == (Decimal("25.50"), "admin@example.com", None)
    assert "€25.50" in browser.get(page).text
    assert browser.post(f"{ADMIN_PATH}/customers/{cast.outsider.id}/entries/{entry.id}/take-back").status_code == 404
    browser.post(f"{page}/entries/{entry.id}/take-back")
    assert cast.owner.balance == 0
    assert "Reversed" in browser.get(page).text
    assert "Reversed" in browser.get(f"{ADMIN_PATH}/ledger").text


def test_admin_billing_page_shows_usage_of_all_customers(browser_as, cast, ledger_entries):
    add_usage(cast.owner, "shop")
    add_usage(cast.outsider, "theirs", charge="1")
    page = browser_as("admin").get(ADMIN_PATH).text
    assert all(words in page for words in ("owner@example.com", "outsider@example.com", "€4.68", "Billing is off"))
    assert "shop" in browser_as("admin").get(f"{ADMIN_PATH}/customers/{cast.owner.id}").text
    assert len(list(csv.DictReader(io.StringIO(browser_as("admin").get(f"{ADMIN_PATH}/usage.csv").text)))) == 2


def test_support_role_cannot_post_credit(browser_as, cast):
    cast.admin.operator_role = "support"
    session.commit()
    page = f"{ADMIN_PATH}/customers/{cast.owner.id}"
    assert "disabled" in browser_as("admin").get(page).text
    assert browser_as("admin").post(page, data={"kind": "credit", "amount": "5"}).status_code == 403


def test_billing_lists_take_constant_number_of_queries(browser_as, cast, queries, ledger_entries):
    counts = []
    for number in range(3):
        for more in range(number * 5):
            add_usage(cast.owner, f"{number}-{more}")
            credits.grant(cast.owner, amount=Decimal(1), actor="test")
        session.commit()
        counts.append([])
        for caller, path in (("owner", "/billing"), ("owner", "/billing/entries"), ("admin", ADMIN_PATH)):
            browser = browser_as(caller)
            queries.clear()
            assert browser.get(path).status_code == 200
            counts[-1].append(len(queries))
    assert counts[1] == counts[2]


def test_user_usage_report(api_as, cast, billing_enabled, ledger_entries, queries):
    add_usage(cast.owner, "shop")
    add_usage(cast.outsider, "theirs")
    queries.clear()
    report = api_as("owner", "GET", "/api/usage-report").json
    assert len(queries) < 8
    assert [row["resource_name"] for row in report["data"]] == ["shop"]
    assert report["data"][0]["charge"] == 3.682192
    totals = {"month": usage.make_month_key(clock.now()), "currency": "EUR", "resources": 1, "hours": 672}
    assert report["totals"] == {**totals, "charge": 3.682192, "balance": 6.32}
    assert report["total"] == 1
    assert api_as("viewer", "GET", "/api/usage-report").status_code == 403
    assert api_as("owner", "GET", "/api/usage-report?month=x").status_code == 422


def test_admin_usage_reports(api_as, cast, ledger_entries):
    add_usage(cast.owner, "shop")
    add_usage(cast.outsider, "theirs", charge="1")
    listed = api_as("admin", "GET", "/api/v1/cloud-service/usage-report").json
    assert {row["email"]: row["charge"] for row in listed["data"]} == {
        "owner@example.com": 3.682192,
        "outsider@example.com": 1,
    }
    assert listed["meta"]["total"] == 2
    report = api_as("admin", "GET", f"/api/v1/cloud-service/usage-reports/{cast.owner.id}").json["data"]
    assert report["totals"]["balance"] == 6.32
    assert [row["resource_name"] for row in report["resources"]] == ["shop"]
    assert api_as("admin", "GET", "/api/v1/cloud-service/usage-reports/nobody").status_code == 404
