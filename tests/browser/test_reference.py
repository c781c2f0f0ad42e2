"""The API references in a real browser: read on a phone, tried with a real token."""

import pytest
from playwright.sync_api import expect

from tests.processes.conftest import Installation, wait_until

pytestmark = pytest.mark.browser
EMAIL, PASSWORD = "ada@example.com", "a long test password"
PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def served_reference(tmp_path_factory):
    """A web process, and a token of its customer."""
    installation = Installation(tmp_path_factory.mktemp("served"), PANEL_WEB_WORKERS="1")
    try:
        installation.run_panel("db", "upgrade")
        installation.run_panel("user", "create", "--email", EMAIL, "--password", PASSWORD)
        installation.token = installation.run_panel("token", "user", "--email", EMAIL).strip()
        installation.start("web")
        wait_until(installation.answers, "the web process")
        yield installation
    finally:
        installation.end()


def test_an_operation_is_tried_with_a_real_token(page, served_reference, screenshot):
    """DOC-02, DOC-06"""
    page.goto(f"{served_reference.url}/api/docs/user")
    expect(page.get_by_role("heading", name="User API").first).to_be_attached()
    expect(page.locator(".servers")).to_contain_text(served_reference.url)
    page.get_by_role("button", name="Authorize").click()
    page.locator(".auth-container input").fill(served_reference.token)
    page.get_by_role("button", name="Apply credentials").click()
    page.get_by_role("button", name="Close").click()
    answer = try_request(page)
    expect(answer.locator(".response-col_status").last).to_contain_text("200")
    expect(answer).to_contain_text('"message": "The token is valid."')
    screenshot("tried")


def try_request(page):
    """What GET /api/connect answers in the reference."""
    page.get_by_role("button", name="Expand operation").first.click()
    operation = page.locator(".opblock", has=page.locator('[data-path="/api/connect"]'))
    operation.locator(".opblock-summary-control").click()
    operation.get_by_role("button", name="Execute").click()
    return operation.locator(".live-responses-table")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/api/docs", "/api/docs/user"], ids=["admin", "user"])
def test_the_reference_fits_a_phone_in_both_themes(page, served_reference, screenshot, path, scheme):
    """DOC-01"""
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size(PHONE)
    page.goto(served_reference.url + path)
    page.get_by_role("button", name="Expand operation").first.click()
    page.locator(".opblock-summary-control").first.click()
    expect(page.get_by_role("button", name="Execute")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    ink = page.evaluate("getComputedStyle(document.querySelector('.opblock-tag')).color.match(/\\d+/)[0]")
    assert (int(ink) > 128) == (scheme == "dark")
    screenshot("phone")


def test_the_reference_inside_the_panel(page, served_reference, screenshot):
    """DOC-09"""
    page.goto(f"{served_reference.url}/user/api/documentation")
    page.get_by_label("Email").fill(EMAIL)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".opblock-tag").first).to_be_visible()
    expect(page.get_by_role("navigation").first).to_contain_text("API reference")
    screenshot("inside")
