"""Every operator page by every role: which pages open, and that only permitted actions are offered."""

import pytest
from lxml import html

from panel.auth import permissions
from panel.core.db import session
from panel.models import Account
from panel.services import accounts
from tests.support.cast import PASSWORD
from tests.support.html_pages import find_enabled_form_actions, find_page_addresses
from tests.support.link_crawler import crawl_pages


@pytest.fixture
def sign_in_operator(cast, browser_as):
    """Return a function that creates an operator with a role and returns a signed-in browser."""

    def sign_in(role):
        cast.operator = accounts.create(email=f"{role}@example.com", password=PASSWORD, operator_role=role)
        session.commit()
        return browser_as("operator")

    return sign_in


@pytest.mark.parametrize("role", permissions.OPERATOR_ROLES)
def test_admin_pages_check_operator_role(app, sign_in_operator, role):
    browser, tried = sign_in_operator(role), 0
    for method in ("GET", "POST"):
        for address, permission in find_page_addresses(app, method, "/admin"):
            answer = browser.open(address, method=method)
            may = permission in (permissions.ANY_ADMIN, *permissions.OPERATOR_ROLES[role])
            assert (answer.status_code != 403) == may, (method, address, permission)
            if not may:
                assert permission in answer.text
            tried += 1
    assert tried > 60


@pytest.mark.parametrize("role", permissions.OPERATOR_ROLES)
def test_admin_pages_offer_only_permitted_actions(rolled_back_app, sign_in_operator, cast, role):
    """Every enabled form of every reachable page belongs to a permitted operation."""
    cast.instance()
    browser, adapter, seen, closed = sign_in_operator(role), rolled_back_app.url_map.bind("localhost"), 0, []
    for path, answer in crawl_pages(browser, "/admin", f"/admin/customers/{cast.owner.id}/access"):
        if answer.status_code != 200:
            closed.append(path)
        if answer.mimetype != "text/html" or not path.startswith("/admin"):
            continue
        seen += 1
        tree = html.fromstring(answer.data)
        for address in find_enabled_form_actions(tree):
            endpoint, _ = adapter.match(address.partition("?")[0], method="POST")
            permission = rolled_back_app.view_functions[endpoint].permission
            if permission.startswith("admin:"):
                assert permission in permissions.OPERATOR_ROLES[role], (path, address)
    assert closed == []
    assert seen > 15


def test_support_role_cannot_change_operators(sign_in_operator, cast):
    """Support operators may change customers only."""
    browser = sign_in_operator("support")
    for action in ("settings", "suspend", "unsuspend", "password", "factors", "sessions", "delete"):
        refused = browser.post(f"/admin/customers/{cast.admin.id}/{action}", data={"typed": cast.admin.email})
        assert refused.status_code == 403, action
        assert "admin:operators:write" in refused.text
    assert browser.post(f"/admin/customers/{cast.owner.id}/suspend", data={}).status_code == 303
    assert session.get(Account, cast.owner.id).suspended_at
    assert session.get(Account, cast.admin.id).suspended_at is None
