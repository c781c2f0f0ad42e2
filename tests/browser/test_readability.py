"""Readability of all pages on a phone and of most on a wide screen, in both themes, with names of maximum length."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from flask import url_for
from playwright.sync_api import expect

from panel.app import OPERATOR_PAGES
from tests.browser.readability_site import VIEWPORTS, open_page, site  # noqa: F401  (fixtures)
from tests.support.link_crawler import normalize_path

pytestmark = pytest.mark.browser

READABILITY_SCRIPT = Path(__file__).with_name("readable.js").read_text()
CUSTOMER_PATHS = [
    "/",
    "/instances",
    "/instances/new",
    "/instances?search=nothing",
    "/resource-packs",
    "/microvms",
    "/microvms/new",
    "/tasks",
    "/activity",
    "/activity/log",
    "/search?q=a",
    "/volumes",
    "/volumes/new",
    "/volumes/backups",
    "/images",
    "/isos",
    "/isos/new",
    "/backups",
    "/backups?search=nothing",
    "/backup-policies",
    "/backup-policies/new",
    "/projects",
    "/projects/new",
    "/security-groups",
    "/security-groups/new",
    "/ip-sets",
    "/ip-sets/new",
    "/ssh-keys",
    "/ssh-keys/new",
    "/ssh-keys/generate",
    "/user-scripts",
    "/user-scripts/new",
    "/alert-rules",
    "/alert-rules/new",
    "/notification-channels",
    "/notification-channels/new",
    "/webhooks",
    "/webhooks/new",
    "/webhooks/verify",
    "/api-tokens",
    "/api-tokens/new",
    "/api-tokens/test",
    "/team",
    "/team/invite",
    "/team/roles/new",
    "/billing",
    "/billing/entries",
    "/profile",
    "/profile/security",
]
INSTANCE_TABS = (
    "",
    "/network",
    "/storage",
    "/media",
    "/snapshots",
    "/backups",
    "/apps",
    "/apps/catalog",
    "/apps/compose",
    "/apps/new/wordpress",
    "/tasks",
    "/activity",
    "/settings",
    "/change-plan",
    "/reinstall",
)
ADMIN_FORMS = [
    "instances/new",
    "customers/new",
    "resource-packs/new",
    "hypervisors/new",
    "security-groups/new",
    "plans/new",
    "backup-destinations/new",
    "backup-policies/new",
    "backups/missing",
]
"""Forms of operators, below /admin."""


MAX_VISITED_PAGES = 200
REPRESENTATIVE_APP = "wordpress"
"""The app of the catalog whose form is visited. The others have the same page."""


def list_customer_paths(site):
    instance, microvm = site.paths["instance"], site.paths["microvm"]
    microvm_pages = (f"{microvm}/{page}" for page in ("edit", "logs", "metrics"))
    return [*CUSTOMER_PATHS, *site.paths.values(), *(instance + tab for tab in INSTANCE_TABS), *microvm_pages]


def list_admin_paths(site):
    with site.app.test_request_context():
        lists = [url_for(entry.endpoint) for entry in OPERATOR_PAGES.entries]
    tabs = [f"/admin{site.paths['instance']}{tab}" for tab in ("", "/network", "/backups", "/settings")]
    detail_pages = [f"/admin{site.paths[name]}" for name in ("group", "set", "pack")]
    return [*lists, *(f"/admin/{form}" for form in ADMIN_FORMS), *tabs, *detail_pages, "/admin/ip-sets?search=nothing"]


AREAS = pytest.mark.parametrize(
    ("caller", "area", "list_paths"), [("owner", "/", list_customer_paths), ("admin", "/admin", list_admin_paths)]
)


@AREAS
def test_pages_open_and_are_readable_on_phone_and_screen(site, open_page, caller, area, list_paths):
    """Linked pages on a phone, and the listed ones on a wide screen as well."""
    page, listed = open_page("phone", caller=caller), list_paths(site)
    visited, waiting, found = set(), [area, *listed], {}
    while waiting:
        path = waiting.pop(0)
        if normalize_path(path) in visited or not f"{path}/".startswith(f"{area.rstrip('/')}/"):
            continue
        visited.add(normalize_path(path))
        if path.endswith((".csv", ".yaml")):
            assert page.request.get(site.url + path).ok, path
            continue
        assert page.goto(site.url + path).ok, path
        for size in ("phone", "screen") if path in listed else ("phone",):
            page.set_viewport_size(VIEWPORTS[size])
            if errors := page.evaluate(READABILITY_SCRIPT):
                found[path, size] = errors
        page.set_viewport_size(VIEWPORTS["phone"])
        assert page.title(), path
        expect(page.locator("h1"), path).to_have_count(1)
        waiting += find_links(page, site)
        assert len(visited) < MAX_VISITED_PAGES, path
    assert found == {}


def find_links(page, site):
    urls = page.eval_on_selector_all("a[href]:not([download])", "all => all.map(a => a.href)")
    paths = [urlsplit(url).path for url in urls if url.startswith(site.url) and "/static/" not in url]
    return [path for path in paths if "/apps/new/" not in path or path.endswith(f"/{REPRESENTATIVE_APP}")]


@pytest.mark.parametrize("size", VIEWPORTS)
def test_missing_page_is_readable(site, open_page, console_errors, size):
    page = open_page(size)
    assert page.goto(f"{site.url}/nothing").status == 404
    assert page.evaluate(READABILITY_SCRIPT) == []
    assert "404" in console_errors.pop()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_theme_of_the_system_is_used(site, open_page, theme):
    page = open_page("screen", theme)
    page.goto(site.url)
    expect(page.locator("html")).to_have_attribute("data-bs-theme", theme)


def test_firewall_rules_show_direction_on_phone(site, open_page):
    page = open_page("phone")
    page.goto(site.url + site.paths["group"])
    for direction in ("Inbound", "Outbound"):
        expect(page.locator("caption", has_text=direction)).to_be_visible()


@pytest.mark.parametrize("tab", ["media", "settings"])
def test_active_tab_is_visible_on_phone(site, open_page, tab):
    page = open_page("phone")
    page.goto(f"{site.url}{site.paths['instance']}/{tab}")
    expect(page.locator(".tab.active")).to_be_in_viewport(ratio=0.9)
