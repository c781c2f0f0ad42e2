"""An installation whose processes run, shared by all tests, and sign-in to its pages."""

import shutil

import pytest
from playwright.sync_api import expect

from tests.support.mail_server import run_mail_server
from tests.support.panel_processes import Customer, Installation
from tests.support.webhook_receiver import CertificateAuthority

PASSWORD = "a long test password"

OPERATOR, CUSTOMER = "operator@example.com", "customer@example.com"


@pytest.fixture(scope="session")
def running_installation(fresh_installation, tmp_path_factory):
    """A running panel with an operator and a customer. It sends mails to `mail_server` and trusts the certificates of
    `authority` at webhooks."""
    folder, (fresh, token) = tmp_path_factory.mktemp("running"), fresh_installation
    shutil.copytree(fresh.data_dir, folder, dirs_exist_ok=True)
    authority = CertificateAuthority()
    authority_file = folder / "authority.pem"
    authority_file.write_text(authority.pem)
    with run_mail_server() as mail_server:
        installation = Installation(
            folder,
            PANEL_WEB_WORKERS="1",
            PANEL_WORKERS="1",
            PANEL_WEBHOOK_ALLOWED_NETWORKS="127.0.0.0/8",
            PANEL_WEBHOOK_CA_FILE=str(authority_file),
            **mail_server.settings,
        )
        installation.authority, installation.mail_server = authority, mail_server
        installation.customer = Customer(installation, token)
        try:
            for email in (OPERATOR, CUSTOMER):
                installation.run_panel("user", "password", "--email", email, "--password", PASSWORD)
            installation.start_all()
            yield installation
        finally:
            installation.kill_processes()


def sign_in(page, running_installation, email):
    page.goto(f"{running_installation.url}/")
    page.get_by_label("Email").fill(email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("navigation").first).to_be_visible()
