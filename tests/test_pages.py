"""Rules of every page: permissions, refusals, security headers and well-formed HTML."""

import json
import re
from html import unescape

import pytest

from panel.app import CUSTOMER_PAGES, OPERATOR_PAGES
from panel.auth import permissions
from panel.core import clock
from panel.core.config import ROOT
from panel.core.db import session
from panel.services import dashboard, platform_search, settings
from tests.support.cast import UNKNOWN_ID
from tests.support.html_pages import PARTIAL_HEADERS, HtmlOutline, find_page_addresses

AREAS = (CUSTOMER_PAGES, OPERATOR_PAGES)
UNLISTED_PAGES = {
    "admin_image_browser.index",
    "admin_mass_mail_templates.index",
    "admin_operator_roles.index",
    "admin_orphans.index",
}
"""List pages that are linked from another page instead of the navigation."""


def test_every_page_names_a_permission(app):
    elsewhere = ("/api", "/version", "/instance/", "/connect", "/healthz", "/readyz", "/metrics")
    for rule in app.url_map.iter_rules():
        if not rule.rule.startswith(elsewhere):
            assert app.view_functions[rule.endpoint].permission in permissions.ALL_PERMISSIONS, rule.rule


@pytest.mark.parametrize("area", AREAS, ids=["customer", "operator"])
def test_navigation_entries_link_to_pages_with_same_permission(app, area):
    assert len(area.entries) == sum(hasattr(module, "NAVIGATION") for module in area.modules) > 10  # no unknown group
    for entry in area.entries:
        assert app.view_functions[entry.endpoint].permission == entry.permission, entry


@pytest.mark.parametrize("area", AREAS, ids=["customer", "operator"])
def test_navigation_entries_have_known_icons_and_different_positions(area):
    icons = json.loads((ROOT / "static" / "icons.json").read_text())
    declared = (*area.entries, *area.palette_actions, *area.search_results.values())
    assert [item for item in declared if item.icon not in icons] == []
    assert len({(entry.group, entry.position) for entry in area.entries}) == len(area.entries)


@pytest.mark.parametrize(
    ("area", "kinds"),
    [(CUSTOMER_PAGES, dashboard.SEARCHABLE_KINDS), (OPERATOR_PAGES, platform_search.PLATFORM_KINDS)],
    ids=["customer", "operator"],
)
def test_search_result_kinds_have_pages(area, kinds):
    assert area.search_results.keys() == kinds.keys()
    assert len({kind.position for kind in kinds.values()}) == len(kinds)


def test_palette_actions_link_to_pages_with_same_permission(app):
    actions = CUSTOMER_PAGES.palette_actions
    assert len({action.position for action in actions}) == len(actions) > 5
    for action in actions:
        assert app.view_functions[action.endpoint].permission == action.permission, action


def test_every_list_page_is_in_the_navigation(app):
    named = {entry.endpoint for area in AREAS for entry in area.entries}
    lists = {f"{module.bp.name}.index" for area in AREAS for module in area.modules} & app.view_functions.keys()
    assert lists - named == UNLISTED_PAGES


@pytest.mark.parametrize(
    ("path", "entry"),
    [("/admin/roles", "/admin/customers"), ("/admin/mass-mail-templates", "/admin/mass-mails"), ("/admin/plans",) * 2],
)
def test_navigation_shows_the_entry_of_the_page(browser_as, path, entry):
    page = browser_as("admin").get(path).text
    assert re.findall(r'<a class="nav-link" href="([^"]*)"[^>]*aria-current="page"', page) == [entry]


def test_anonymous_requests_redirect_to_sign_in(app, browser_as):
    answers = 0
    for method in ("GET", "POST"):
        for address, permission in find_page_addresses(app, method):
            if permission != permissions.PUBLIC:
                answer = browser_as().open(address, method=method)
                assert answer.status_code == 303, address
                assert answer.headers["Location"].startswith("/sign-in"), address
                answers += 1
    assert answers > 20


def test_sign_in_redirect_keeps_requested_page(browser_as):
    assert (
        browser_as().get("/instances?state=running").headers["Location"] == "/sign-in?next=/instances?state%3Drunning"
    )
    page = {**PARTIAL_HEADERS, "HX-Current-URL": "http://localhost/instances?search=a"}
    assert browser_as().get("/instances", headers=page).headers["HX-Redirect"] == "/sign-in?next=/instances?search%3Da"


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
        {},
    ],
)
def test_cross_site_posts_are_refused(app, browser_as, headers):
    browser = browser_as("owner")
    del browser.environ_base["HTTP_SEC_FETCH_SITE"]
    for address, _ in find_page_addresses(app, "POST"):
        answer = browser.post(address, headers=headers)
        assert answer.status_code == 400, address
        assert "not sent from a page of this panel" in answer.text


def test_post_with_own_origin_header_is_accepted(browser_as, cast):
    browser = browser_as("owner")
    del browser.environ_base["HTTP_SEC_FETCH_SITE"]
    answer = browser.post("/profile", data={"timezone": "Asia/Tokyo"}, headers={"Origin": "http://localhost"})
    assert answer.status_code == 303
    assert cast.owner.timezone == "Asia/Tokyo"


def test_suspended_account_cannot_post(app, browser_as, cast):
    cast.owner.suspended_at = clock.now()
    session.commit()
    browser = browser_as("owner")
    assert "Your account is suspended" in browser.get("/").text
    own = {name for name in permissions.MEMBER_PERMISSIONS if not name.endswith(".view")}
    refused = [address for address, permission in find_page_addresses(app, "POST") if permission in own]
    assert len(refused) > 50
    for address in refused:
        answer = browser.post(address)
        assert answer.status_code == 403, address
        assert "Your account is suspended: you can view everything, but change nothing." in unescape(answer.text)


def test_suspended_operator_cannot_open_admin_pages(app, browser_as, cast):
    """A suspended operator may not read the admin pages either."""
    cast.admin.suspended_at = clock.now()
    session.commit()
    browser = browser_as("admin")
    assert browser.get("/").status_code == 200
    for address, permission in find_page_addresses(app, "GET"):
        if permission.startswith("admin:"):
            answer = browser.get(address)
            assert (answer.status_code, "account is suspended" in answer.text) == (403, True), address


def test_customers_cannot_open_admin_pages(app, browser_as):
    browser = browser_as("owner")
    for method in ("GET", "POST"):
        for address, permission in find_page_addresses(app, method):
            if permission.startswith("admin:"):
                answer = browser.open(address, method=method)
                assert answer.status_code == 403, address
                assert permission in answer.text


def test_pages_have_security_headers_and_no_inline_scripts(browser_as):
    answer = browser_as("owner").get("/")
    policy = answer.headers["Content-Security-Policy"]
    nonce = re.search(r"script-src 'nonce-([^']+)'", policy)[1]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert "Strict-Transport-Security" not in answer.headers
    scripts = re.findall(r"<script[^>]*>", answer.text)
    assert scripts
    assert all(f'nonce="{nonce}"' in script for script in scripts)
    assert all("src=" in script or 'type="application/json"' in script for script in scripts)
    assert not re.search(r'\son\w+="|\sstyle="|javascript:', answer.text)
    assert nonce not in browser_as("owner").get("/").text


def test_static_assets_are_immutable_and_other_files_are_not_served(browser_as):
    address = re.search(r'href="(/static/[^"]+/app\.css)"', browser_as().get("/sign-in").text)[1]
    answer = browser_as().get(address)
    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert answer.mimetype == "text/css"
    assert browser_as().get("/static/000000000000/app.css").headers["Cache-Control"] == "no-cache"
    packed = browser_as().get("/static/0/vendor/tabler.min.css", headers={"Accept-Encoding": "br"})
    assert packed.headers["Content-Encoding"] == "br"
    for name in ("package.json", "node_modules/htmx.org/package.json", "vendor/../package.json", "nothing.css"):
        assert browser_as().get(f"/static/0/{name}").status_code == 404


def test_unknown_page_offers_search_and_overview_link(browser_as):
    answer = browser_as("owner").get("/nothing")
    assert answer.status_code == 404
    assert 'action="/search"' in answer.text
    assert "Back to overview" in answer.text
    assert browser_as().get("/nothing").status_code == 404


def test_crash_page_shows_request_id(app, browser_as, monkeypatch):
    def crash(*_, **__):
        raise RuntimeError("the database's secret")

    monkeypatch.setattr("panel.pages.customer.overview.list_recent_tasks", crash)
    answer = browser_as("owner").get("/")
    assert answer.status_code == 500
    assert answer.headers["X-Request-Id"] in answer.text
    assert "secret" not in answer.text


def test_error_of_partial_request_is_a_toast(browser_as):
    answer = browser_as("owner").get(f"/instances/{UNKNOWN_ID}", headers=PARTIAL_HEADERS)
    assert answer.status_code == 404
    assert answer.headers["HX-Reswap"] == "none"
    assert answer.text.startswith('<hx-partial hx-target="#toasts"')
    assert "No such instance." in answer.text


@pytest.mark.parametrize("address", ["/", "/instances", "/tasks", "/activity", "/ssh-keys", "/profile"])
def test_partial_answer_is_a_block_of_the_page(browser_as, address):
    page, part = browser_as("owner").get(address), browser_as("owner").get(address, headers=PARTIAL_HEADERS)
    assert page.text.startswith("<!doctype html>")
    assert "<html" not in part.text
    assert "HX-Request-Type" in part.headers["Vary"]


WELL_FORMED_PAGES = [
    "/",
    "/instances",
    "/instances/new",
    "/tasks",
    "/activity",
    "/ssh-keys",
    "/ssh-keys/new",
    "/profile",
    "/profile/security",
    "/backups",
    "/backup-policies",
    "/backup-policies/new",
    "/search?q=x",
]


@pytest.mark.parametrize("address", WELL_FORMED_PAGES)
def test_pages_are_well_formed(browser_as, cast, address):
    for caller in ("owner", "outsider"):
        if caller == "owner":
            cast.instance(display_name="<b>&'\"")
        answer = browser_as(caller).get(address)
        assert answer.status_code == 200
        outline = HtmlOutline(answer.text)
        assert outline.open == []
        assert len(outline.ids) == len(set(outline.ids))
        assert "<b>&" not in answer.text


def test_search_finds_own_resources_only(browser_as, cast):
    instance = cast.instance(display_name="Shop front")
    assert instance.id in browser_as("owner").get("/search?q=shop").text
    assert instance.id not in browser_as("outsider").get("/search?q=shop").text
    assert "/profile" in browser_as("owner").get("/search?q=prof", headers=PARTIAL_HEADERS).text
    assert "No results" in browser_as("owner").get("/search?q=zzzz").text


LIST_PAGE_PERMISSIONS = {
    "/instances": "instances.create",
    "/volumes": "volumes.manage",
    "/microvms": "microvm.manage",
    "/isos": "isos.manage",
    "/security-groups": "security_groups.manage",
    "/ip-sets": "ip_sets.manage",
    "/ssh-keys": "ssh_keys.manage",
    "/user-scripts": "user_scripts.manage",
    "/sandbox-keys": "microvm.manage",
    "/backup-policies": "backup_policies.manage",
    "/webhooks": "webhooks.manage",
    "/alert-rules": "monitoring.manage",
    "/notification-channels": "monitoring.manage",
    "/projects": "projects.manage",
}


@pytest.mark.parametrize("address", LIST_PAGE_PERMISSIONS)
def test_empty_list_names_permission_required_to_add(browser_as, address):
    """The whole page has the disabled button twice: in the title, and in place of the list. The partial has it once."""
    settings.update({"billing_enabled": True})  # volumes are offered
    page, part = (
        browser_as("viewer").get(address).text,
        browser_as("viewer").get(address, headers=PARTIAL_HEADERS).text,
    )
    for text, times in ((page, 2), (part, 1)):
        disabled = re.findall(
            r'class="btn btn-primary disabled" aria-disabled="true">.*?<span class="reason"[^>]*>([^<]+)<', text
        )
        assert len(disabled) == times
        assert all(LIST_PAGE_PERMISSIONS[address] in reason for reason in disabled), disabled
        assert f'class="btn btn-primary" href="{address}/new' not in text
