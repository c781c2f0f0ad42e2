"""An installation whose processes run, and sign-in to its pages."""

import pytest
from playwright.sync_api import expect

from tests.support.panel_processes import installation  # noqa: F401  (fixture)

PASSWORD = "a long test password"

OPERATOR, CUSTOMER = "operator@example.com", "customer@example.com"


@pytest.fixture
def running_installation(installation):
    installation.start_all()
    for email in (OPERATOR, CUSTOMER):
        installation.run_panel("user", "password", "--email", email, "--password", PASSWORD)
    return installation


def sign_in(page, running_installation, email):
    page.goto(f"{running_installation.url}/")
    page.get_by_label("Email").fill(email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("navigation").first).to_be_visible()
