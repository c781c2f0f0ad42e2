"""Customers on the operators' pages."""

import re

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Account
from panel.services import account_limits, accounts
from tests.test_pages import PARTIAL_HEADERS

CUSTOMERS = "/admin/customers"


@pytest.fixture
def operator(browser_as):
    return browser_as("admin")


def test_a_customer_is_added(operator):
    sent = {"email": "Ada@Example.com", "first_name": "Ada", "password": "correct horse", "timezone": "Europe/Berlin"}
    answer = operator.post(f"{CUSTOMERS}/new", data=sent)
    made = accounts.find_by_email("ada@example.com")
    assert answer.headers["Location"] == f"{CUSTOMERS}/{made.id}"
    assert not made.is_admin
    assert accounts.authenticate("ada@example.com", "correct horse")


def test_mistakes_stand_beside_their_fields_and_passwords_are_not_shown_again(operator):
    sent = {"email": "owner@example.com", "password": "correct horse", "timezone": "UTC"}
    answer = operator.post(f"{CUSTOMERS}/new", data=sent)
    assert (answer.status_code, 'id="wrong-email"' in answer.text) == (422, True)
    assert "correct horse" not in answer.text
    answer = operator.post(f"{CUSTOMERS}/new", data={**sent, "email": "x", "password": "short"})
    assert 'id="wrong-email"' in answer.text
    assert 'id="wrong-password"' in answer.text


def test_a_customer_with_their_instances(operator, cast):
    mine, others = cast.instance("owner"), cast.instance("outsider")
    page = operator.get(f"{CUSTOMERS}/{cast.owner.id}").text
    assert mine.id in page
    assert others.id not in page
    assert "owner=owner@example.com" in page.replace("%40", "@")


def test_the_list_is_searched_and_costs_the_same_for_many(operator, cast, queries):
    assert cast.owner.id in operator.get(f"{CUSTOMERS}?search=olga").text
    assert cast.outsider.id not in operator.get(f"{CUSTOMERS}?search=olga", headers=PARTIAL_HEADERS).text
    assert "Operator" in operator.get(f"{CUSTOMERS}?search=admin@").text
    queries.clear()
    operator.get(CUSTOMERS)
    few = len(queries)
    session.add_all(Account(email=f"{number}@example.com") for number in range(29))
    session.commit()
    queries.clear()
    assert operator.get(CUSTOMERS).text.count('<tr id="') == 25
    assert len(queries) == few


def test_customer_list_is_filtered(operator, cast):
    rows = lambda query: operator.get(f"{CUSTOMERS}?{query}").text.count('<tr id="account-')  # noqa: E731
    cast.outsider.suspended_at = clock.now()
    session.commit()
    assert [rows(query) for query in ("", "kind=operator", "kind=member", "suspended=yes")] == [5, 1, 2, 1]
    assert rows("kind=nobody&suspended=maybe") == 5


def test_customer_settings_show_limits(operator, cast):
    place = f"{CUSTOMERS}/{cast.owner.id}/settings"
    shown = set(re.findall(r'name="(max_\w+)"', operator.get(place).text))
    assert shown == set(account_limits.COUNTED_MODELS)  # finding M6: limits of what does not exist are not shown
    sent = {"email": "owner@example.com", "first_name": "", "max_certificates": "3", "self_provisioning": "true"}
    assert operator.post(place, data=sent).status_code == 303
    owner = session.get(Account, cast.owner.id)
    assert (owner.first_name, owner.max_certificates, owner.self_provisioning) == ("", 3, True)
    refused = operator.post(place, data={**sent, "max_certificates": "-1"})
    assert (refused.status_code, 'id="wrong-max_certificates"' in refused.text) == (422, True)


def test_suspending_with_a_reason(operator, cast, browser_as):
    place = f"{CUSTOMERS}/{cast.owner.id}"
    assert operator.post(f"{place}/suspend", data={"reason": "Unpaid."}).status_code == 303
    assert "Unpaid." in operator.get(f"{place}/access").text
    assert "Unpaid." in browser_as("owner").get("/").text
    assert operator.post(f"{place}/unsuspend").status_code == 303
    assert session.get(Account, cast.owner.id).suspended_reason is None
    assert operator.post(f"{CUSTOMERS}/{cast.admin.id}/suspend").status_code == 422


def test_a_password_is_shown_once(operator, cast, browser_as):
    mine = browser_as("owner")
    page = operator.post(f"{CUSTOMERS}/{cast.owner.id}/password")
    password = re.search(r'copy-value">([^<]+)<', page.text)[1]
    assert accounts.authenticate("owner@example.com", password)
    assert mine.get("/").status_code == 303
    assert password not in operator.get(f"{CUSTOMERS}/{cast.owner.id}/access").text


def test_signing_somebody_out(operator, cast, browser_as):
    mine, other = browser_as("owner"), browser_as("outsider")
    assert operator.post(f"{CUSTOMERS}/{cast.owner.id}/sessions").status_code == 303
    assert (mine.get("/").status_code, other.get("/").status_code) == (303, 200)


def test_roles_on_the_page(operator, cast):
    place = f"{CUSTOMERS}/{cast.outsider.id}/role"
    assert operator.post(place, data={"role": "support"}).status_code == 303
    assert "Operator: Support" in operator.get(f"{CUSTOMERS}?kind=operator").text
    assert operator.post(place, data={"role": ""}).status_code == 303
    assert session.get(Account, cast.outsider.id).operator_role is None
    refused = operator.post(f"{CUSTOMERS}/{cast.admin.id}/role", data={"role": ""})
    assert "last operator with full access" in refused.text


def test_removing_needs_the_address(operator, cast):
    place = f"{CUSTOMERS}/{cast.outsider.id}/delete"
    assert operator.post(place, data={"typed": "x"}).status_code == 422
    assert operator.post(place, data={"typed": "outsider@example.com"}).headers["Location"] == CUSTOMERS
    assert accounts.find_by_email("outsider@example.com") is None
    assert operator.post(f"{CUSTOMERS}/{cast.owner.id}/delete", data={"typed": "owner@example.com"}).status_code == 409


def test_a_customer_s_team(operator, cast):
    page = operator.get(f"{CUSTOMERS}/{cast.owner.id}/team").text
    assert "viewer@example.com" in page
    assert "No team members" in operator.get(f"{CUSTOMERS}/{cast.outsider.id}/team").text
    assert "Olga Owner" in operator.get(f"{CUSTOMERS}/{cast.viewer.id}").text
