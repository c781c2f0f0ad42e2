"""Customers on the operators' pages."""

import re

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Account, Member, Role
from panel.services import account_limits, accounts
from tests.support.html_pages import PARTIAL_HEADERS

CUSTOMERS_PATH = "/admin/customers"


@pytest.fixture
def operator_browser(browser_as):
    return browser_as("admin")


def test_customer_page_creates_account(operator_browser):
    sent = {"email": "Ada@Example.com", "first_name": "Ada", "password": "correct horse", "timezone": "Europe/Berlin"}
    answer = operator_browser.post(f"{CUSTOMERS_PATH}/new", data=sent)
    account = accounts.find_by_email("ada@example.com")
    assert answer.headers["Location"] == f"{CUSTOMERS_PATH}/{account.id}"
    assert not account.is_admin
    assert accounts.authenticate("ada@example.com", "correct horse")


def test_form_errors_appear_at_fields_without_password(operator_browser):
    sent = {"email": "owner@example.com", "password": "correct horse", "timezone": "UTC"}
    answer = operator_browser.post(f"{CUSTOMERS_PATH}/new", data=sent)
    assert (answer.status_code, 'id="wrong-email"' in answer.text) == (422, True)
    assert "correct horse" not in answer.text
    answer = operator_browser.post(f"{CUSTOMERS_PATH}/new", data={**sent, "email": "x", "password": "short"})
    assert 'id="wrong-email"' in answer.text
    assert 'id="wrong-password"' in answer.text


def test_customer_list_query_count_does_not_depend_on_teams(operator_browser, cast, queries):
    operator_browser.get(CUSTOMERS_PATH)
    queries.clear()
    operator_browser.get(CUSTOMERS_PATH)
    query_count = len(queries)
    for number in range(5):
        owner = Account(email=f"owner-{number}@example.com", first_name="Team", last_name=str(number))
        person = Account(email=f"member-{number}@example.com")
        session.add_all([owner, person])
        session.flush()
        role = Role(account_id=owner.id, name="Support")
        session.add(
            Member(owner_id=owner.id, account_id=person.id, role=role, email=person.email, invited_at=clock.now())
        )
    session.commit()
    queries.clear()
    page = operator_browser.get(CUSTOMERS_PATH).text
    assert len(queries) == query_count
    assert [f"Team of Team {number}" in page for number in range(5)] == [True] * 5


def test_customer_page_lists_instances(operator_browser, cast):
    own_instance, others = cast.instance("owner"), cast.instance("outsider")
    page = operator_browser.get(f"{CUSTOMERS_PATH}/{cast.owner.id}").text
    assert own_instance.id in page
    assert others.id not in page
    assert "owner=owner@example.com" in page.replace("%40", "@")


def test_customer_list_searches_with_constant_query_count(operator_browser, cast, queries):
    assert cast.owner.id in operator_browser.get(f"{CUSTOMERS_PATH}?search=olga").text
    assert cast.outsider.id not in operator_browser.get(f"{CUSTOMERS_PATH}?search=olga", headers=PARTIAL_HEADERS).text
    assert "Operator" in operator_browser.get(f"{CUSTOMERS_PATH}?search=admin@").text
    queries.clear()
    operator_browser.get(CUSTOMERS_PATH)
    few = len(queries)
    session.add_all(Account(email=f"{number}@example.com") for number in range(29))
    session.commit()
    queries.clear()
    assert operator_browser.get(CUSTOMERS_PATH).text.count('<tr id="') == 25
    assert len(queries) == few


def test_customer_list_is_filtered(operator_browser, cast):
    rows = lambda query: operator_browser.get(f"{CUSTOMERS_PATH}?{query}").text.count('<tr id="account-')  # noqa: E731
    cast.outsider.suspended_at = clock.now()
    session.commit()
    assert [rows(query) for query in ("", "kind=operator", "kind=member", "suspended=yes")] == [5, 1, 2, 1]
    assert rows("kind=nobody&suspended=maybe") == 5


def test_customer_settings_show_limits(operator_browser, cast):
    place = f"{CUSTOMERS_PATH}/{cast.owner.id}/settings"
    shown = set(re.findall(r'name="(max_\w+)"', operator_browser.get(place).text))
    assert shown == set(account_limits.COUNTED_COLUMNS)  # limits of missing features are hidden
    sent = {"email": "owner@example.com", "first_name": "", "max_certificates": "3", "self_provisioning": "true"}
    assert operator_browser.post(place, data=sent).status_code == 303
    owner = session.get(Account, cast.owner.id)
    assert (owner.first_name, owner.max_certificates, owner.self_provisioning) == ("", 3, True)
    refused = operator_browser.post(place, data={**sent, "max_certificates": "-1"})
    assert (refused.status_code, 'id="wrong-max_certificates"' in refused.text) == (422, True)


def test_suspension_reason_is_shown(operator_browser, cast, browser_as):
    place = f"{CUSTOMERS_PATH}/{cast.owner.id}"
    assert operator_browser.post(f"{place}/suspend", data={"reason": "Unpaid."}).status_code == 303
    assert "Unpaid." in operator_browser.get(f"{place}/access").text
    assert "Unpaid." in browser_as("owner").get("/").text
    assert operator_browser.post(f"{place}/unsuspend").status_code == 303
    assert session.get(Account, cast.owner.id).suspended_reason is None
    assert operator_browser.post(f"{CUSTOMERS_PATH}/{cast.admin.id}/suspend").status_code == 422


def test_reset_password_is_shown_once(operator_browser, cast, browser_as):
    own_browser = browser_as("owner")
    page = operator_browser.post(f"{CUSTOMERS_PATH}/{cast.owner.id}/password")
    password = re.search(r'copy-value">([^<]+)<', page.text)[1]
    assert accounts.authenticate("owner@example.com", password)
    assert own_browser.get("/").status_code == 303
    assert password not in operator_browser.get(f"{CUSTOMERS_PATH}/{cast.owner.id}/access").text


def test_operator_signs_customer_out(operator_browser, cast, browser_as):
    own_browser, other = browser_as("owner"), browser_as("outsider")
    assert operator_browser.post(f"{CUSTOMERS_PATH}/{cast.owner.id}/sessions").status_code == 303
    assert (own_browser.get("/").status_code, other.get("/").status_code) == (303, 200)


def test_operator_role_form(operator_browser, cast):
    place = f"{CUSTOMERS_PATH}/{cast.outsider.id}/role"
    assert operator_browser.post(place, data={"role": "support"}).status_code == 303
    assert "Operator: Support" in operator_browser.get(f"{CUSTOMERS_PATH}?kind=operator").text
    assert operator_browser.post(place, data={"role": ""}).status_code == 303
    assert session.get(Account, cast.outsider.id).operator_role is None
    refused = operator_browser.post(f"{CUSTOMERS_PATH}/{cast.admin.id}/role", data={"role": ""})
    assert "last operator with full access" in refused.text


def test_account_deletion_requires_typed_email(operator_browser, cast):
    place = f"{CUSTOMERS_PATH}/{cast.outsider.id}/delete"
    assert operator_browser.post(place, data={"typed": "x"}).status_code == 422
    assert operator_browser.post(place, data={"typed": "outsider@example.com"}).headers["Location"] == CUSTOMERS_PATH
    assert accounts.find_by_email("outsider@example.com") is None
    assert (
        operator_browser.post(
            f"{CUSTOMERS_PATH}/{cast.owner.id}/delete", data={"typed": "owner@example.com"}
        ).status_code
        == 409
    )


def test_customer_team_page(operator_browser, cast):
    page = operator_browser.get(f"{CUSTOMERS_PATH}/{cast.owner.id}/team").text
    assert "viewer@example.com" in page
    assert "No team members" in operator_browser.get(f"{CUSTOMERS_PATH}/{cast.outsider.id}/team").text
    assert "Olga Owner" in operator_browser.get(f"{CUSTOMERS_PATH}/{cast.viewer.id}").text
