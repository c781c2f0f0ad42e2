"""Readability of all pages on a phone and a wide screen, in both themes, with names of maximum length."""

from pathlib import Path

import pytest
from flask import url_for
from playwright.sync_api import expect

from panel.app import OPERATOR_PAGES
from tests.browser.readability_site import VIEWPORTS, open_page, site  # noqa: F401  (fixtures)

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
    "/nothing",
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


@pytest.mark.parametrize("size", VIEWPORTS)
def test_customer_pages_are_readable(site, open_page, size):
    paths = [
        *CUSTOMER_PATHS,
        *site.paths.values(),
        *(site.paths["instance"] + tab for tab in INSTANCE_TABS),
        *(site.paths["microvm"] + page for page in ("/edit", "/logs", "/metrics")),
    ]
    assert find_readability_errors(open_page(size), site, paths) == {}


@pytest.mark.parametrize("size", VIEWPORTS)
def test_admin_pages_are_readable(site, open_page, size):
    with site.app.test_request_context():
        lists = [url_for(entry.endpoint) for entry in OPERATOR_PAGES.entries]
    tabs = [f"/admin{site.paths['instance']}{tab}" for tab in ("", "/network", "/backups", "/settings")]
    detail_pages = [f"/admin{site.paths[name]}" for name in ("group", "set", "pack")]
    paths = [*lists, *(f"/admin/{form}" for form in ADMIN_FORMS), *tabs, *detail_pages, "/admin/ip-sets?search=nothing"]
    assert find_readability_errors(open_page(size, caller="admin"), site, paths) == {}


def find_readability_errors(page, site, paths):
    """Return {path: errors} of pages with readability errors."""
    errors = {}
    for path in paths:
        assert page.goto(site.url + path).ok or path == "/nothing", path
        if page_errors := page.evaluate(READABILITY_SCRIPT):
            errors[path] = page_errors
    return errors


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
