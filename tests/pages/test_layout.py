"""The frame around pages: where people arrive, and the switch between the areas of an operator."""

import pytest
from lxml import html

from panel.core import clock
from panel.core.db import session
from tests.support.cast import PASSWORD

AREAS = "//nav[@aria-label='Area']/a"
ACCOUNT_MENU = "//header//a[contains(@class, 'dropdown-item')]"


def sign_in(browse, who, query=""):
    return browse().post(f"/sign-in{query}", data={"email": f"{who}@example.com", "password": PASSWORD})


@pytest.mark.parametrize(("who", "home"), [("admin", "/admin"), ("owner", "/"), ("member", "/")])
def test_people_arrive_at_their_own_overview(browser_as, who, home):
    """Finding M2: operators landed on the customers' overview."""
    assert sign_in(browser_as, who).headers["Location"] == home
    assert browser_as(who).get("/sign-in").headers["Location"] == home


def test_operators_arrive_where_they_wanted_to_go(browser_as):
    """Finding M2: `next` wins over the first page."""
    assert sign_in(browser_as, "admin", "?next=/instances").headers["Location"] == "/instances"


def test_a_suspended_operator_arrives_at_the_overview_that_opens(browser_as, cast):
    cast.admin.suspended_at = clock.now()
    session.commit()
    assert browser_as("admin").get("/sign-in").headers["Location"] == "/"


def test_operators_switch_between_the_areas(browser_as):
    """Finding M2: the switch stands in the top bar and in the account menu, not at the end of the navigation."""
    for path, other in (("/", "Admin"), ("/admin", "My resources"), ("/admin/plans", "My resources")):
        page = html.fromstring(browser_as("admin").get(path).text)
        switch = {link.text: link.get("href") for link in page.xpath(AREAS)}
        assert switch == {"Admin": "/admin", "My resources": "/"}
        (current,) = page.xpath(f"{AREAS}[@aria-current]")
        assert current.text != other
        menu = {link.text_content().strip(): link.get("href") for link in page.xpath(ACCOUNT_MENU)}
        assert menu[other] == switch[other]
    assert not html.fromstring(browser_as("owner").get("/").text).xpath(AREAS)


def test_the_logo_leads_to_the_overview_of_the_open_area(browser_as):
    for who, path, home in (("admin", "/admin/plans", "/admin"), ("admin", "/tasks", "/"), ("owner", "/tasks", "/")):
        page = html.fromstring(browser_as(who).get(path).text)
        assert page.find_class("navbar-brand")[0].get("href") == home


@pytest.mark.parametrize("role", ["support", "read_only"])
def test_a_refused_operator_learns_which_permission_is_missing_and_who_gives_it(browser_as, cast, role):
    """Finding m19: operators were told that the page is for operators."""
    cast.admin.operator_role = role
    session.commit()
    answer = browser_as("admin").get("/admin/plans/new")
    assert answer.status_code == 403
    assert "admin:catalog:write" in answer.text
    assert "An operator with full access can change your role." in answer.text
    assert "This is for operators" not in answer.text
