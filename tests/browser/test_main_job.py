"""The main job in a real browser, against a real guest."""

import pytest
from playwright.sync_api import expect

from tests.support.installation import EMAIL, PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.guest]

PATIENT = 120_000
"""Milliseconds for what a guest does."""


def sign_in(page, lab, email=EMAIL):
    page.goto(f"{lab.at.url}/")
    page.get_by_label("Email").fill(email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("navigation").first).to_be_visible()


def test_a_customer_makes_a_machine_and_signs_in_to_it(page, lab, shot):
    sign_in(page, lab)
    page.get_by_role("link", name="Instances").first.click()
    page.get_by_role("link", name="Create instance").first.click()
    page.get_by_label("Name", exact=True).fill("Shop front")
    page.get_by_label("Host name").fill("shop.example.com")
    expect(page.get_by_role("checkbox", name="lab")).to_be_checked()
    shot("create")
    page.get_by_role("button", name="Create instance").click()
    expect(page.get_by_label("Name, click to change")).to_have_value("Shop front")
    shot("deploying")
    expect(page.get_by_text("Running", exact=True).first).to_be_visible(timeout=PATIENT)
    shot("running")
    (instance,) = [row for row in lab.call("GET", "/api/instances")["data"] if row["display_name"] == "Shop front"]
    ip = instance["primary_public_ip"]["ip"]
    expect(page.get_by_text(ip).first).to_be_visible()
    assert lab.ssh(ip, "hostname").strip() == "shop.example.com"
    page.get_by_role("button", name="Power off").click()
    page.locator("#confirm-yes").click()
    expect(page.get_by_text("Stopped", exact=True).first).to_be_visible(timeout=PATIENT)
    shot("stopped")
    lab.destroy(instance)
