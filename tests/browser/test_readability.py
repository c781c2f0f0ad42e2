"""Readability of all pages on a phone and of most on a wide screen, in both themes, with names of maximum length."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.axe import find_violations
from tests.browser.page_paths import AREAS, visit_pages
from tests.browser.page_weight import find_weight_errors, list_loaded_files
from tests.browser.readability_site import VIEWPORTS, open_page, site  # noqa: F401  (fixtures)

pytestmark = pytest.mark.browser

READABILITY_SCRIPT = Path(__file__).with_name("readable.js").read_text()

SIZES = {**VIEWPORTS, "zoomed": {"width": 720, "height": 450}}
"""A zoom of 200 % halves the size that pages see."""
LAYOUT_STATES = {
    "closed": lambda page: None,
    "search": lambda page: page.keyboard.press("Control+k"),
    "shortcuts": lambda page: page.keyboard.press("?"),
    "account": lambda page: page.locator(".account-menu").click(),
    "tasks": lambda page: page.locator("#recent-tasks-button").click(),
}
"""How to open each part of the layout. Escape closes it."""


@pytest.mark.parametrize("caller", AREAS)
def test_pages_open_and_are_readable_accessible_and_light(site, open_page, caller):
    """Linked pages on a phone, and the listed ones on a wide screen and at twice its size as well.

    `test_layout_is_accessible_in_all_sizes_and_themes` looks at what surrounds them.
    """
    page, errors = open_page("phone", caller=caller), {}
    for path, is_listed in visit_pages(page, site, caller):
        errors[path, "weight"] = find_weight_errors(page, path)
        errors[path, "axe"] = find_violations(page, "main")
        for size in SIZES if is_listed else ("phone",):
            page.set_viewport_size(SIZES[size])
            errors[path, size] = page.evaluate(READABILITY_SCRIPT)
        page.set_viewport_size(VIEWPORTS["phone"])
        assert page.title(), path
        expect(page.locator("h1"), path).to_have_count(1)
    assert {place: found for place, found in errors.items() if found} == {}


@pytest.mark.parametrize("caller", AREAS)
def test_layout_is_accessible_in_all_sizes_and_themes(site, open_page, caller):
    """The navigation, the menus of the top bar and the dialogs, on the first page of the area."""
    page, errors = open_page("screen", caller=caller), {}
    page.goto(site.url + AREAS[caller][0])
    for size, theme in (("screen", "light"), ("screen", "dark"), ("phone", "light")):
        page.set_viewport_size(VIEWPORTS[size])
        page.emulate_media(color_scheme=theme)
        for state, open_state in LAYOUT_STATES.items():
            open_state(page)
            errors[size, theme, state] = find_violations(page)
            page.keyboard.press("Escape")
    assert {place: found for place, found in errors.items() if found} == {}


def test_later_view_loads_no_static_file(site, open_page):
    page = open_page("screen")
    page.goto(site.url)
    assert any("/static/" in name for name in list_loaded_files(page))
    page.goto(f"{site.url}/instances")
    assert [name for name in list_loaded_files(page) if "/static/" in name] == []


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
