"""The layout of pages: redirects after sign-in, and the switch between the areas of an operator."""

import pytest
from lxml import html

from panel.core import clock
from panel.core.db import session
from tests.support.cast import PASSWORD

AREA_LINKS_XPATH = "//nav[@aria-label='Area']/a"
ACCOUNT_MENU_XPATH = "//header//a[contains(@class, 'dropdown-item')]"


def sign_in(browser_as, caller, query=""):
    return browser_as().post(f"/sign-in{query}", data={"email": f"{caller}@example.com", "password": PASSWORD})


@pytest.mark.parametrize(("caller", "home"), [("admin", "/admin"), ("owner", "/"), ("member", "/")])
def test_sign_in_redirects_to_overview_of_role(browser_as, caller, home):
    """Operators landed on the customers' overview."""
    assert sign_in(browser_as, caller).headers["Location"] == home
    assert browser_as(caller).get("/sign-in").headers["Location"] == home


def test_sign_in_redirects_operator_to_requested_page(browser_as):
    """`next` takes precedence over the overview."""
    assert sign_in(browser_as, "admin", "?next=/instances").headers["Location"] == "/instances"


def test_suspended_operator_is_redirected_to_customer_overview(browser_as, cast):
    cast.admin.suspended_at = clock.now()
    session.commit()
    assert browser_as("admin").get("/sign-in").headers["Location"] == "/"


def test_operator_pages_have_area_switch(browser_as):
    """The switch is in the top bar and in the account menu, not at the end of the navigation."""
    for path, other in (("/", "Admin"), ("/admin", "My resources"), ("/admin/plans", "My resources")):
        page = html.fromstring(browser_as("admin").get(path).text)
        switch = {link.text: link.get("href") for link in page.xpath(AREA_LINKS_XPATH)}
        assert switch == {"Admin": "/admin", "My resources": "/"}
        (current,) = page.xpath(f"{AREA_LINKS_XPATH}[@aria-current]")
        assert current.text != other
        menu = {link.text_content().strip(): link.get("href") for link in page.xpath(ACCOUNT_MENU_XPATH)}
        assert menu[other] == switch[other]
    assert not html.fromstring(browser_as("owner").get("/").text).xpath(AREA_LINKS_XPATH)


def test_logo_links_to_overview_of_current_area(browser_as):
    for caller, path, home in (("admin", "/admin/plans", "/admin"), ("admin", "/tasks", "/"), ("owner", "/tasks", "/")):
        page = html.fromstring(browser_as(caller).get(path).text)
        assert page.find_class("navbar-brand")[0].get("href") == home


@pytest.mark.parametrize("role", ["support", "read_only"])
def test_refused_operator_sees_missing_permission(browser_as, cast, role):
    """The message said that the page is for operators."""
    cast.admin.operator_role = role
    session.commit()
    answer = browser_as("admin").get("/admin/plans/new")
    assert answer.status_code == 403
    assert "admin:catalog:write" in answer.text
    assert "An operator with full access can change your role." in answer.text
    assert "This is for operators" not in answer.text
