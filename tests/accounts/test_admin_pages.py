"""Customers on the operators' pages."""

import pytest

from panel.db import session
from panel.models import Account
from panel.services import accounts
from tests.test_pages import PART

CUSTOMERS = "/admin/customers"


@pytest.fixture
def operator(browse):
    return browse("admin")


def test_a_customer_is_added(operator):
    sent = {"email": "Ada@Example.com", "first_name": "Ada", "password": "correct horse", "timezone": "Europe/Berlin"}
    answer = operator.post(f"{CUSTOMERS}/new", data=sent)
    made = accounts.by_email("ada@example.com")
    assert answer.headers["Location"] == f"{CUSTOMERS}/{made.id}"
    assert not made.is_admin
    assert accounts.check_password("ada@example.com", "correct horse")


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
    assert cast.outsider.id not in operator.get(f"{CUSTOMERS}?search=olga", headers=PART).text
    assert "Operator" in operator.get(f"{CUSTOMERS}?search=admin@").text
    queries.clear()
    operator.get(CUSTOMERS)
    few = len(queries)
    session.add_all(Account(email=f"{number}@example.com") for number in range(29))
    session.commit()
    queries.clear()
    assert operator.get(CUSTOMERS).text.count('<tr id="') == 25
    assert len(queries) == few
