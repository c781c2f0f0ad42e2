"""The menu of an instance in a list, which loads its actions when it opens."""

import pytest
from playwright.sync_api import expect

from tests.browser.readability_site import open_page, site  # noqa: F401  (fixtures)

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("size", ["screen", "phone"])
def test_row_menu_loads_actions_by_mouse(site, open_page, size):
    page = open_page(size)
    page.goto(f"{site.url}/instances")
    row = page.locator("#rows .row-menu").first
    row.locator("[data-bs-toggle]").click()
    item = row.get_by_role("button", name="Start", exact=False).first
    expect(item).to_be_in_viewport(ratio=1)
    expect(row.get_by_role("link", name="Settings")).to_be_in_viewport(ratio=1)


def test_row_menu_works_by_keyboard_and_stays_during_updates(site, open_page):
    page = open_page("screen")
    page.goto(f"{site.url}/instances")
    row = page.locator("#rows .row-menu").first
    row.locator("[data-bs-toggle]").focus()
    page.keyboard.press("Enter")
    expect(row.locator(".loaded-items .dropdown-item").first).to_be_visible()
    count = row.locator(".dropdown-item").count()
    page.evaluate("document.querySelector('#rows').dispatchEvent(new CustomEvent('live'))")
    page.wait_for_timeout(1500)
    expect(row.locator(".dropdown-item:visible")).to_have_count(count)
    page.keyboard.press("ArrowDown")
    expect(row.locator(".dropdown-item:focus")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(row.locator(".dropdown-menu")).to_be_hidden()
    expect(row.locator("[data-bs-toggle]")).to_be_focused()
