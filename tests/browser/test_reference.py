"""The API references in a real browser: on a phone, and with requests that use a real token."""

import pytest
from playwright.sync_api import expect

from tests.support.panel_processes import Installation
from tests.support.waiting import wait_until

pytestmark = pytest.mark.browser
EMAIL, PASSWORD = "ada@example.com", "a long test password"
PHONE_VIEWPORT = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def reference_installation(tmp_path_factory):
    """Start a web process with a customer, whose token is `token`."""
    installation = Installation(tmp_path_factory.mktemp("served"), PANEL_WEB_WORKERS="1")
    try:
        installation.run_panel("db", "upgrade")
        installation.run_panel("user", "create", "--email", EMAIL, "--password", PASSWORD)
        installation.token = installation.run_panel("token", "user", "--email", EMAIL).strip()
        installation.start("web")
        wait_until(installation.is_answering, "the web process")
        yield installation
    finally:
        installation.kill_processes()


def test_reference_executes_request_with_token(page, reference_installation, screenshot):
    """DOC-02, DOC-06"""
    page.goto(f"{reference_installation.url}/api/docs/user")
    expect(page.get_by_role("heading", name="User API").first).to_be_attached()
    expect(page.locator(".servers")).to_contain_text(reference_installation.url)
    page.get_by_role("button", name="Authorize").click()
    page.locator(".auth-container input").fill(reference_installation.token)
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
def test_reference_fits_phone_in_both_themes(page, reference_installation, screenshot, path, scheme):
    """DOC-01"""
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size(PHONE_VIEWPORT)
    page.goto(reference_installation.url + path)
    page.get_by_role("button", name="Expand operation").first.click()
    page.locator(".opblock-summary-control").first.click()
    expect(page.get_by_role("button", name="Execute")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE_VIEWPORT["width"]
    red = page.evaluate("getComputedStyle(document.querySelector('.opblock-tag')).color.match(/\\d+/)[0]")
    assert (int(red) > 128) == (scheme == "dark")
    screenshot("phone")


def test_panel_shows_reference_after_sign_in(page, reference_installation, screenshot):
    """DOC-09"""
    page.goto(f"{reference_installation.url}/user/api/documentation")
    page.get_by_label("Email").fill(EMAIL)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".opblock-tag").first).to_be_visible()
    expect(page.get_by_role("navigation").first).to_contain_text("API reference")
    screenshot("inside")
