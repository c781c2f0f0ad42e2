"""Every page of the operators, by every role: what opens, what does not, and that no button is offered in vain."""

import pytest
from lxml import html

from panel.auth import permissions
from panel.core.db import session
from panel.models import Account
from panel.services import accounts
from tests.support.cast import PASSWORD
from tests.support.link_crawler import crawl_pages, is_own_link
from tests.test_pages import page_addresses as every_page


@pytest.fixture
def operator(cast, browser_as):
    """The browser of an operator with a role."""

    def opened(role):
        cast.operator = accounts.create(email=f"{role}@example.com", password=PASSWORD, operator_role=role)
        session.commit()
        return browser_as("operator")

    return opened


@pytest.mark.parametrize("role", permissions.OPERATOR_ROLES)
def test_every_page_opens_to_the_roles_that_may(app, operator, role):
    browser, tried = operator(role), 0
    for method in ("GET", "POST"):
        for address, permission in every_page(app, method, "/admin"):
            answer = browser.open(address, method=method)
            may = permission in (permissions.ANY_ADMIN, *permissions.OPERATOR_ROLES[role])
            assert (answer.status_code != 403) == may, (method, address, permission)
            if not may:
                assert permission in answer.text
            tried += 1
    assert tried > 60


@pytest.mark.parametrize("role", permissions.OPERATOR_ROLES)
def test_no_page_offers_what_is_refused(rolled_back_app, operator, cast, role):
    """Every form that can be sent, of every page that can be reached, belongs to something the person may do."""
    cast.instance()
    browser, adapter, seen, closed = operator(role), rolled_back_app.url_map.bind("localhost"), 0, []
    for path, answer in crawl_pages(browser, "/admin", f"/admin/customers/{cast.owner.id}/access"):
        if answer.status_code != 200:
            closed.append(path)
        if answer.mimetype != "text/html" or not path.startswith("/admin"):
            continue
        seen += 1
        tree = html.fromstring(answer.data)
        for address in offered_actions(tree):
            endpoint, _ = adapter.match(address.partition("?")[0], method="POST")
            permission = rolled_back_app.view_functions[endpoint].permission
            if permission.startswith("admin:"):
                assert permission in permissions.OPERATOR_ROLES[role], (path, address)
    assert closed == []
    assert seen > 15


def offered_actions(tree):
    """Where the forms go whose buttons can be pressed, and those that send a field when it is left."""
    for form in tree.iter("form"):
        buttons = form.xpath(".//button[not(@type='button')]")
        able = all(button.get("disabled") is None for button in buttons) if buttons else form.get("hx-trigger")
        if (form.get("method") or "").lower() == "post" and able and is_own_link(form.get("action")):
            yield form.get("action")


def test_support_does_not_take_over_who_may_do_more(operator, cast):
    """A support operator looks after customers, and not after operators."""
    browser = operator("support")
    for action in ("settings", "suspend", "unsuspend", "password", "factors", "sessions", "delete"):
        refused = browser.post(f"/admin/customers/{cast.admin.id}/{action}", data={"typed": cast.admin.email})
        assert refused.status_code == 403, action
        assert "admin:operators:write" in refused.text
    assert browser.post(f"/admin/customers/{cast.owner.id}/suspend", data={}).status_code == 303
    assert session.get(Account, cast.owner.id).suspended_at
    assert session.get(Account, cast.admin.id).suspended_at is None
