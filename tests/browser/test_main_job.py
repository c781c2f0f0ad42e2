"""Create, use and power off an instance in a real browser, with a real guest."""

import pytest
from playwright.sync_api import expect

from tests.support.installation import CUSTOMER_EMAIL, CUSTOMER_PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.guest]

PAGE_TIMEOUT_MS = 120_000
"""Timeout of page expectations that depend on a guest."""


def sign_in(page, lab, email=CUSTOMER_EMAIL):
    page.goto(f"{lab.installation.url}/")
    page.get_by_label("Email").fill(email)
    page.get_by_label("Password").fill(CUSTOMER_PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("navigation").first).to_be_visible()


def test_customer_creates_instance_and_powers_it_off(page, lab, screenshot):
    sign_in(page, lab)
    page.get_by_role("link", name="Instances").first.click()
    page.get_by_role("link", name="Create instance").first.click()
    page.get_by_label("Name", exact=True).fill("Shop front")
    page.get_by_label("Host name").fill("shop.example.com")
    expect(page.get_by_role("checkbox", name="lab")).to_be_checked()
    screenshot("create")
    page.get_by_role("button", name="Create instance").click()
    expect(page.get_by_label("Name, click to edit")).to_have_value("Shop front")
    screenshot("deploying")
    expect(page.get_by_text("Running", exact=True).first).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    screenshot("running")
    (instance,) = [row for row in lab.call("GET", "/api/instances")["data"] if row["display_name"] == "Shop front"]
    ip = instance["primary_public_ip"]["ip"]
    expect(page.get_by_text(ip).first).to_be_visible()
    assert lab.ssh(ip, "hostname").strip() == "shop.example.com"
    page.get_by_role("button", name="Power off").click()
    page.locator("#confirm-yes").click()
    expect(page.get_by_text("Stopped", exact=True).first).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    screenshot("stopped")
    lab.destroy(instance)
