"""The API references in a real browser: size of the first view, search, examples, phones and both themes."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.running_installation import CUSTOMER, PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.processes]
PHONE_VIEWPORT = {"width": 360, "height": 740}
MAX_FIRST_VIEW_BYTES = 250_000
"""Bytes of a first view as they are sent, compressed, with all styles and scripts."""
READABILITY_SCRIPT = Path(__file__).with_name("readable.js").read_text()


@pytest.mark.parametrize("path", ["/api/docs", "/api/docs/user", "/api/docs/user/instance"])
def test_first_view_of_reference_is_small(page, running_installation, path):
    requests = []
    page.on("requestfinished", lambda request: requests.append(request))
    page.goto(running_installation.url + path, wait_until="networkidle")
    sizes = {request.url: request.sizes()["responseBodySize"] for request in requests}
    assert running_installation.url + path in sizes
    assert sum(sizes.values()) <= MAX_FIRST_VIEW_BYTES, sizes


def test_search_opens_operation_with_examples(page, running_installation, screenshot):
    """DOC-02, DOC-06"""
    page.goto(f"{running_installation.url}/api/docs/user")
    expect(page.get_by_role("heading", name="User API")).to_be_visible()
    page.get_by_role("searchbox").press_sequentially("public ssh key")
    expect(page).to_have_url(f"{running_installation.url}/api/docs/user?q=public+ssh+key")
    page.get_by_role("link", name="Add a public SSH key").click()
    section = page.locator("article:target")
    expect(section).to_be_in_viewport()
    expect(section.locator("pre").first).to_contain_text(f"{running_installation.url}/api/")
    section.locator("summary", has_text="Python").click()
    expect(section.locator("pre", has_text="import requests")).to_be_visible()
    screenshot("operation")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/api/docs", "/api/docs/user/ssh_key"], ids=["introduction", "family"])
def test_reference_is_readable_on_phone_in_both_themes(page, running_installation, screenshot, path, scheme):
    """DOC-01"""
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size(PHONE_VIEWPORT)
    page.goto(running_installation.url + path)
    expect(page.locator("html")).to_have_attribute("data-bs-theme", scheme)
    page.evaluate("document.querySelectorAll('details').forEach((part) => part.open = true)")
    assert page.evaluate(READABILITY_SCRIPT) == []
    expect(page.locator("h1")).to_have_count(1)
    screenshot("phone")


def test_panel_shows_reference_after_sign_in(page, running_installation, screenshot):
    """DOC-09"""
    page.goto(f"{running_installation.url}/user/api/documentation")
    page.get_by_label("Email").fill(CUSTOMER)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("navigation", name="Contents").get_by_role("link", name="SSH keys").click()
    expect(page.locator("article").first).to_contain_text("/api/ssh-key")
    expect(page.locator(".account-menu + .dropdown-menu")).to_contain_text("API reference")
    screenshot("inside")
