"""Members with a single permission: their pages open, and show only what the permission allows."""

import pytest
from lxml import html

from panel.auth import permissions
from panel.core.db import session
from panel.models import Member, Project
from panel.services import team
from tests.support.html_pages import find_enabled_form_actions
from tests.support.link_crawler import crawl_pages

FAMILIES_WITH_PAGES = ("instances", "projects", "ssh_keys", "account", "webhooks")
SINGLE_PERMISSIONS = [
    *(f"{family}.{verb}" for family in FAMILIES_WITH_PAGES for verb in permissions.PERMISSION_VERBS),
    *permissions.SPECIAL_PERMISSIONS,
    "dns_zones.view",
    None,
]
"""Permissions that open pages, one that opens no page, and None for no permission."""
RESOURCE_KINDS = {
    "instances.view": "instance",
    "projects.view": "project",
    "ssh_keys.view": "ssh_key",
    "account.view": "member",
}


@pytest.fixture
def browser_with_permission(cast, browser_as):
    """Return a function that opens a browser of a member whose role has only these permissions."""

    def open_browser(*allowed):
        member = session.query(Member).filter_by(account_id=cast.viewer.id).one()
        member.role.permissions = team.with_implied_views(allowed)
        session.commit()
        return browser_as("viewer")

    return open_browser


@pytest.fixture
def findable_rows(api_as, cast):
    """Create one row of each searchable kind with `shop` in its name."""
    cast.instance(display_name="shop-1")
    session.add(Project(account_id=cast.owner.id, name="shop project"))
    session.commit()
    api_as("owner", "POST", "/api/ssh-key/generate", json={"name": "shop key", "algorithm": "ed25519"})


@pytest.mark.parametrize("permission", SINGLE_PERMISSIONS)
def test_first_pages_open_with_any_permission(findable_rows, browser_with_permission, permission):
    browser = browser_with_permission(*filter(None, [permission]))
    for path in ("/", "/search?q=shop", "/activity", "/profile"):
        answer = browser.get(path, follow_redirects=True)
        assert answer.status_code == 200, (path, permission)
    overview, results = browser.get("/").text, browser.get("/search?q=shop").text
    granted = team.with_implied_views([permission] if permission else [])
    assert ("shop-1" in overview) == ("instances.view" in granted)
    for name, needed in (
        ("shop-1", "instances.view"),
        ("shop project", "projects.view"),
        ("shop key", "ssh_keys.view"),
    ):
        assert (name in results) == (needed in granted), (name, permission)


@pytest.mark.parametrize("permission", SINGLE_PERMISSIONS)
def test_linked_pages_open_with_single_permission(findable_rows, browser_with_permission, rolled_back_app, permission):
    """No link and no enabled form leads to a refusal."""
    browser, adapter = browser_with_permission(*filter(None, [permission])), rolled_back_app.url_map.bind("localhost")
    for path, answer in crawl_pages(browser):
        assert answer.status_code in (200, 303), (path, permission)
        if answer.mimetype != "text/html" or not answer.data.strip():
            continue
        for address in find_enabled_form_actions(html.fromstring(answer.data)):
            endpoint, _ = adapter.match(address.partition("?")[0], method="POST")
            needed = rolled_back_app.view_functions[endpoint].permission
            granted = team.with_implied_views([permission] if permission else [])
            assert needed in granted or needed not in permissions.MEMBER_PERMISSIONS, (path, address)


def test_overview_shows_team_and_role_of_member(browser_as, cast):
    page = browser_as("viewer").get("/").text
    assert "Olga Owner" in page
    assert "with the role Viewer" in page


def test_disabled_controls_show_missing_permission(browser_as, cast):
    instance = cast.instance()
    page = browser_as("viewer").get(f"/instances/{instance.id}/settings").text
    assert "it needs instances.manage" in page
    assert "it needs instances.create" in browser_as("viewer").get("/").text


@pytest.mark.parametrize("permission", [*RESOURCE_KINDS, "dns_zones.view"])
def test_dashboard_api_shows_permitted_kinds_only(api_as, findable_rows, browser_with_permission, permission):
    browser_with_permission(permission)
    dashboard = api_as("viewer", "GET", "/api/dashboard").json["data"]
    assert (dashboard["instances"] is not None, dashboard["tasks_running"] is not None) == (
        permission == "instances.view",
    ) * 2
    counts = api_as("viewer", "GET", "/api/dashboard/summary").json["data"]
    assert set(counts) & set(RESOURCE_KINDS.values()) == {RESOURCE_KINDS.get(permission)} - {None}
    results = api_as("viewer", "GET", "/api/dashboard/search?q=shop").json["results"]
    assert {row["type"] for row in results} == {RESOURCE_KINDS.get(permission)} - {None, "member"}


def test_dashboard_api_counts_resources_of_account(api_as, findable_rows):
    dashboard = api_as("owner", "GET", "/api/dashboard").json["data"]
    assert dashboard["instances"] == {"total": 1, "states": {"pending": 1}, "price": 4.0}
    counts = api_as("owner", "GET", "/api/dashboard/summary").json["data"]
    assert {kind: counts[kind] for kind in RESOURCE_KINDS.values()} == {
        "instance": 1,
        "project": 1,
        "ssh_key": 1,
        "member": 2,
    }
    assert api_as("outsider", "GET", "/api/dashboard").json["data"]["instances"]["total"] == 0
    assert api_as("outsider", "GET", "/api/dashboard/search?q=shop").json["results"] == []
    assert api_as("owner", "GET", "/api/dashboard/search").status_code == 422
