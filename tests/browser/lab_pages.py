"""Sign-in to the pages of the lab's installation."""

from playwright.sync_api import expect

from tests.support.installation import CUSTOMER_EMAIL, CUSTOMER_PASSWORD

PAGE_TIMEOUT_MS = 120_000
"""Timeout of page expectations that depend on a guest."""


def sign_in(page, lab, email=CUSTOMER_EMAIL):
    page.goto(f"{lab.installation.url}/")
    page.get_by_label("Email").fill(email)
    page.get_by_label("Password").fill(CUSTOMER_PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("navigation").first).to_be_visible()
