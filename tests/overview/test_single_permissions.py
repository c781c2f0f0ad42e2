"""People with one permission each: nothing is broken for them, and nothing is shown that is not theirs."""

import pytest
from lxml import html

from panel.auth import permissions
from panel.core.db import session
from panel.models import Member, Project
from panel.services import team
from tests.accounts.test_operators import find_enabled_form_actions
from tests.support.link_crawler import crawl_pages

PAGES = ("instances", "projects", "ssh_keys", "account", "webhooks")
SINGLE_PERMISSIONS = [
    *(f"{family}.{verb}" for family in PAGES for verb in permissions.VERBS),
    *permissions.SPECIAL,
    "dns_zones.view",
    None,
]
"""What a role may be given alone: all that opens pages, something that opens none, and nothing."""
KINDS = {"instances.view": "instance", "projects.view": "project", "ssh_keys.view": "ssh_key", "account.view": "member"}


@pytest.fixture
def browser_with_permission(cast, browser_as):
    """The browser of a member whose role permits just this."""

    def opened(*allowed):
        member = session.query(Member).filter_by(account_id=cast.viewer.id).one()
        member.role.permissions = team.with_implied_views(allowed)
        session.commit()
        return browser_as("viewer")

    return opened


@pytest.fixture
def findable_rows(api_as, cast):
    """One of each kind that can be found by the word `shop`."""
    cast.instance(display_name="shop-1")
    session.add(Project(account_id=cast.owner.id, name="shop project"))
    session.commit()
    api_as("owner", "POST", "/api/ssh-key/generate", json={"name": "shop key", "algorithm": "ed25519"})


@pytest.mark.parametrize("permission", SINGLE_PERMISSIONS)
def test_first_pages_open_to_everybody(findable_rows, browser_with_permission, permission):
    browser = browser_with_permission(*filter(None, [permission]))
    for path in ("/", "/search?q=shop", "/activity", "/profile"):
        answer = browser.get(path, follow_redirects=True)
        assert answer.status_code == 200, (path, permission)
    overview, found = browser.get("/").text, browser.get("/search?q=shop").text
    given = team.with_implied_views([permission] if permission else [])
    assert ("shop-1" in overview) == ("instances.view" in given)
    for name, needed in (
        ("shop-1", "instances.view"),
        ("shop project", "projects.view"),
        ("shop key", "ssh_keys.view"),
    ):
        assert (name in found) == (needed in given), (name, permission)


@pytest.mark.parametrize("permission", SINGLE_PERMISSIONS)
def test_what_is_linked_can_be_opened(findable_rows, browser_with_permission, rolled_back_app, permission):
    """Ask 20: no link leads to a refusal, no form that can be sent is refused."""
    browser, adapter = browser_with_permission(*filter(None, [permission])), rolled_back_app.url_map.bind("localhost")
    for path, answer in crawl_pages(browser):
        assert answer.status_code in (200, 303), (path, permission)
        if answer.mimetype != "text/html" or not answer.data.strip():
            continue
        for address in find_enabled_form_actions(html.fromstring(answer.data)):
            endpoint, _ = adapter.match(address.partition("?")[0], method="POST")
            needed = rolled_back_app.view_functions[endpoint].permission
            given = team.with_implied_views([permission] if permission else [])
            assert needed in given or needed not in permissions.MEMBER, (path, address)


def test_a_member_reads_in_whose_team_they_are(browser_as, cast):
    page = browser_as("viewer").get("/").text
    assert "Olga Owner" in page
    assert "with the role Viewer" in page


def test_controls_say_which_permission_is_missing(browser_as, cast):
    instance = cast.instance()
    page = browser_as("viewer").get(f"/instances/{instance.id}/settings").text
    assert "it needs instances.manage" in page
    assert "it needs instances.create" in browser_as("viewer").get("/").text


@pytest.mark.parametrize("permission", [*KINDS, "dns_zones.view"])
def test_the_api_shows_everybody_their_part(api_as, findable_rows, browser_with_permission, permission):
    browser_with_permission(permission)
    shown = api_as("viewer", "GET", "/api/dashboard").json["data"]
    assert (shown["instances"] is not None, shown["tasks_running"] is not None) == (permission == "instances.view",) * 2
    counts = api_as("viewer", "GET", "/api/dashboard/summary").json["data"]
    assert set(counts) == {KINDS.get(permission)} - {None}
    found = api_as("viewer", "GET", "/api/dashboard/search?q=shop").json["results"]
    assert {row["type"] for row in found} == {KINDS.get(permission)} - {None, "member"}


def test_the_dashboard_counts(api_as, findable_rows):
    shown = api_as("owner", "GET", "/api/dashboard").json["data"]
    assert shown["instances"] == {"total": 1, "states": {"pending": 1}, "price": 4.0}
    assert api_as("owner", "GET", "/api/dashboard/summary").json["data"] == {
        "instance": 1,
        "project": 1,
        "ssh_key": 1,
        "member": 2,
    }
    assert api_as("outsider", "GET", "/api/dashboard").json["data"]["instances"]["total"] == 0
    assert api_as("outsider", "GET", "/api/dashboard/search?q=shop").json["results"] == []
    assert api_as("owner", "GET", "/api/dashboard/search").status_code == 422
