"""API tokens in a real browser: created with a preset, used and revoked; and impersonation by an operator."""

import pytest
from playwright.sync_api import expect

from tests.browser.running_installation import CUSTOMER, OPERATOR, sign_in
from tests.support.panel_processes import Customer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.processes]


def test_token_is_created_used_and_revoked(page, running_installation, screenshot):
    """IDT-07: a token of the panel authenticates at the API."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    sign_in(page, running_installation, CUSTOMER)
    page.locator(".account-menu").click()
    page.get_by_role("link", name="API tokens").first.click()
    screenshot("list")
    page.get_by_role("link", name="Create token").first.click()
    page.get_by_label("Name").fill("CI of the shop")
    page.get_by_role("button", name="Read only").click()
    expect(page.get_by_label("instances:read")).to_be_checked()
    expect(page.get_by_label("Name")).to_have_value("CI of the shop")
    page.get_by_label("user_scripts:read").uncheck()
    page.get_by_label("user_scripts:write").check()
    expect(page.get_by_label("user_scripts:read")).to_be_checked()
    page.get_by_role("button", name="Use my address").click()
    expect(page.get_by_label("Allowed addresses")).to_have_value("127.0.0.1")
    screenshot("form")
    page.get_by_label("Name").press("Enter")
    expect(page.get_by_label("Token", exact=True)).to_be_visible()
    screenshot("created")
    page.get_by_role("button", name="Copy token").click()
    value = page.get_by_label("Token", exact=True).input_value()
    wait_until(lambda: page.evaluate("navigator.clipboard.readText()") == value, "the copy")
    client = Customer(running_installation, value)
    assert client.call("GET", "/api/instances") == running_installation.customer.call("GET", "/api/instances")
    assert (
        running_installation.call("POST", "/api/ssh-key/generate", {"name": "k", "algorithm": "ed25519"}, value)[0]
        == 403
    )

    page.get_by_role("link", name="I saved it").click()
    page.get_by_role("link", name="Test a token").click()
    page.get_by_label("Token", exact=True).fill(value)
    page.get_by_label("Request").fill("POST /api/ssh-key/generate")
    page.get_by_role("button", name="Test").click()
    expect(page.get_by_text("it needs ssh_keys:write")).to_be_visible()
    screenshot("tested")

    page.locator(".account-menu").click()
    page.get_by_role("link", name="API tokens").first.click()
    page.get_by_role("button", name="Actions for CI of the shop").click()
    page.get_by_role("button", name="Revoke").click()
    page.locator("#confirm-yes").click()
    expect(page.get_by_text("Token CI of the shop revoked.")).to_be_visible()
    expect(page.get_by_role("button", name="Actions for CI of the shop")).to_have_count(0)
    assert running_installation.call("GET", "/api/connect", token=value)[0] == 401


def test_token_is_revoked_without_javascript(browser, running_installation):
    """Menus open, and a page asks for the confirmation."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    try:
        sign_in(page, running_installation, CUSTOMER)
        page.goto(f"{running_installation.url}/api-tokens/new")
        page.get_by_label("Name").fill("old")
        page.get_by_label("instances:read").check()
        page.get_by_role("main").get_by_role("button", name="Create token").click()
        page.get_by_role("link", name="I saved it").click()
        page.get_by_role("button", name="Actions for old").click()
        page.get_by_role("button", name="Revoke").click()
        expect(page.get_by_text("Programs that use it")).to_be_visible()
        page.get_by_role("link", name="Cancel").click()
        page.get_by_role("button", name="Actions for old").click()
        page.get_by_role("button", name="Revoke").click()
        page.get_by_role("main").get_by_role("button", name="Revoke").click()
        expect(page.get_by_text("Token old revoked.")).to_be_visible()
        expect(page.get_by_role("button", name="Actions for old")).to_have_count(0)
    finally:
        context.close()


def test_operator_impersonates_customer(page, running_installation, screenshot):
    sign_in(page, running_installation, OPERATOR)
    page.goto(f"{running_installation.url}/admin/customers?search={CUSTOMER}")
    page.locator("#rows tbody").get_by_role("link").first.click()
    page.get_by_role("button", name="Sign in as customer").click()
    banner = page.locator("#impersonating")
    expect(banner).to_contain_text(f"You are acting as {CUSTOMER}")
    screenshot("banner")
    page.locator(".account-menu").click()
    page.get_by_role("link", name="API tokens").first.click()
    expect(banner).to_be_visible()
    expect(page.get_by_role("button", name="Create token").first).to_be_disabled()
    banner.get_by_role("button", name="Return to admin").click()
    expect(page.get_by_text("You are no longer acting as")).to_be_visible()
    expect(banner).to_have_count(0)
    screenshot("back")
