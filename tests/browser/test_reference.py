"""The API references in a real browser: on a phone, and with requests that use a real token."""

import pytest
from playwright.sync_api import expect

from tests.browser.running_installation import CUSTOMER, PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.processes]
PHONE_VIEWPORT = {"width": 360, "height": 740}


def test_reference_executes_request_with_token(page, running_installation, screenshot):
    """DOC-02, DOC-06"""
    page.goto(f"{running_installation.url}/api/docs/user")
    expect(page.get_by_role("heading", name="User API").first).to_be_attached()
    expect(page.locator(".servers")).to_contain_text(running_installation.url)
    page.get_by_role("button", name="Authorize").click()
    page.locator(".auth-container input").fill(running_installation.customer.token)
    page.get_by_role("button", name="Apply credentials").click()
    page.get_by_role("button", name="Close").click()
    answer = try_request(page)
    expect(answer.locator(".response-col_status").last).to_contain_text("200")
    expect(answer).to_contain_text('"message": "The token is valid."')
    screenshot("tried")


def try_request(page):
    """Execute GET /api/connect in the reference. Return the table with the response."""
    page.get_by_role("button", name="Expand operation").first.click()
    operation = page.locator(".opblock", has=page.locator('[data-path="/api/connect"]'))
    operation.locator(".opblock-summary-control").click()
    operation.get_by_role("button", name="Execute").click()
    return operation.locator(".live-responses-table")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/api/docs", "/api/docs/user"], ids=["admin", "user"])
def test_reference_fits_phone_in_both_themes(page, running_installation, screenshot, path, scheme):
    """DOC-01"""
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size(PHONE_VIEWPORT)
    page.goto(running_installation.url + path)
    page.get_by_role("button", name="Expand operation").first.click()
    page.locator(".opblock-summary-control").first.click()
    expect(page.get_by_role("button", name="Execute")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE_VIEWPORT["width"]
    red = page.evaluate("getComputedStyle(document.querySelector('.opblock-tag')).color.match(/\\d+/)[0]")
    assert (int(red) > 128) == (scheme == "dark")
    screenshot("phone")


def test_panel_shows_reference_after_sign_in(page, running_installation, screenshot):
    """DOC-09"""
    page.goto(f"{running_installation.url}/user/api/documentation")
    page.get_by_label("Email").fill(CUSTOMER)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".opblock-tag").first).to_be_visible()
    expect(page.locator(".account-menu + .dropdown-menu")).to_contain_text("API reference")
    screenshot("inside")
