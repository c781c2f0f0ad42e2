"""Create, use and power off an instance in a real browser, with a real guest."""

import pytest
from playwright.sync_api import expect

from tests.browser.lab_pages import PAGE_TIMEOUT_MS, sign_in

pytestmark = [pytest.mark.browser, pytest.mark.guest]


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
