"""Where the focus is after an action, and what the frame is called (findings m1, m4, m26, axe of the frame)."""

import pytest
from playwright.sync_api import expect

from tests.browser.test_readable import opened, site  # noqa: F401

pytestmark = pytest.mark.browser


def focused(page):
    return page.evaluate("document.activeElement.id || document.activeElement.tagName")


def test_the_focus_stays(site, opened):  # noqa: F811
    page = opened("screen")
    page.goto(f"{site.url}/instances")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette-query")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#search-open")).to_be_focused()

    page.locator("#search").fill("nothing has this name")
    expect(page.locator(".page-title .count")).to_have_text("0")

    page.goto(f"{site.url}{site.thing['instance']}/settings")
    page.locator("#typed").fill("nonsense")
    page.locator("#typed").press("Enter")
    expect(page.locator("#typed-error")).to_contain_text("That is not the name of this instance.")
    expect(page.locator("#typed")).to_be_focused()
    assert page.locator("#typed").get_attribute("aria-invalid") == "true"
    page.locator("#typed").press("x")
    expect(page.locator("#typed-error")).to_have_count(0)

    page.goto(f"{site.url}{site.thing['instance']}")
    page.get_by_role("button", name="Restart").first.click()
    page.locator("#confirm-yes").click()
    expect(page.locator("#toasts")).to_contain_text("Restart requested.")
    page.wait_for_timeout(1000)
    assert focused(page) != "BODY"


def test_the_frame_is_called_what_it_shows(site, opened):  # noqa: F811
    """WCAG 2.5.3: the name of a control has the words that it shows. Contrast of the group titles: 4.5 to 1."""
    for who, theme in (("owner", "light"), ("admin", "dark")):
        page = opened("screen", theme, who)
        page.goto(site.url + ("/admin" if who == "admin" else "/"))
        for place in (".navbar-brand", "#search-open", ".person"):
            assert page.locator(place).get_attribute("aria-label") is None
        colour = page.locator(".nav-section-title").first.evaluate("e => getComputedStyle(e).color")
        secondary = page.locator(".text-secondary").first.evaluate("e => getComputedStyle(e).color")
        assert colour == secondary
