"""Sign-in with every factor in a real browser. Passkeys are those of Chromium's virtual authenticator, and mails come
through a real mail server."""

import queue
import re
import threading
import time

import pyotp
import pytest
from aiosmtpd.controller import Controller
from playwright.sync_api import expect
from sqlalchemy import select
from waitress import create_server

from panel.app import create_app
from panel.core import context
from panel.core.db import session
from panel.models import Account
from panel.ratelimit import windows
from panel.services import settings
from tests.support.cast import PASSWORD
from tests.support.isolated_app import isolated_installation
from tests.support.mail_server import MailServer
from tests.support.ports import find_free_port
from tests.support.waiting import wait_until
from worker.tasks import mail

pytestmark = pytest.mark.browser

EMAIL = "owner@example.com"
NEW_PASSWORD = "another long password"
AUTHENTICATOR_OPTIONS = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


class SignInSite:
    """A panel with its mail server. Its host is `localhost`, because passkeys require a host name."""

    def __init__(self, app, url, mail_server):
        self.app, self.url, self.mail_server = app, url, mail_server

    def get_totp_secret(self, email=EMAIL):
        with self.app.app_context():
            return session.scalar(select(Account).where(Account.email == email)).totp_secret

    def wait_for_mail(self, subject):
        """Return the text of the newest mail with this subject. Waits for it."""
        mails = wait_until(
            lambda: [mail for mail in self.mail_server.mails if mail["Subject"] == subject], f"a mail: {subject}"
        )
        return mails[-1].get_body(("plain",)).get_content()


@pytest.fixture
def site(tmp_path):
    port, mail_server, calls = find_free_port(), MailServer(), queue.Queue()
    smtp = Controller(mail_server, hostname="127.0.0.1", port=find_free_port())
    smtp.start()
    settings = {"public_url": f"http://localhost:{port}", "mail_url": f"smtp://127.0.0.1:{smtp.port}"}
    with isolated_installation(tmp_path, create=create_app, on_call=lambda *call: calls.put(call), **settings) as app:
        context.current().rate_limits = windows.RateLimits("")  # of this process
        server = create_server(app, host="127.0.0.1", port=port, threads=8)
        threading.Thread(target=server.run, daemon=True).start()  # ends with the last connection after close()
        worker = threading.Thread(target=send_mails, args=(app, calls))
        worker.start()
        yield SignInSite(app, settings["public_url"], mail_server)
        server.close()
        calls.put(None)
        worker.join()
        smtp.stop()


def send_mails(app, calls):
    """Send the queued mails, as a worker would, until None is in the queue."""
    while call := calls.get():
        function, *args = call
        if function == "worker.tasks.mail.send":
            with app.app_context():
                mail.send(*args)


def sign_in(page, site, password=PASSWORD):
    page.goto(f"{site.url}/sign-in")
    page.get_by_label("Email address").fill(EMAIL)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()


def sign_out(page):
    page.get_by_role("button", name="Account:").click()
    page.get_by_role("banner").get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.get_by_label("Email address")).to_be_focused()


def set_up_authenticator(page, site):
    """Set up an authenticator on the pages. Return the recovery codes."""
    expect(page.get_by_role("navigation").first).to_be_visible()
    page.goto(f"{site.url}/profile/security")
    page.get_by_role("link", name="Set up").click()
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_alt_text("QR code")).to_be_visible()
    wait_until(lambda: page.get_by_alt_text("QR code").evaluate("image => image.naturalWidth") > 50, "the picture")
    page.get_by_label("Code").fill(pyotp.TOTP(site.get_totp_secret()).now())
    page.get_by_role("button", name="Turn on").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    return page.locator(".recovery-codes code").all_inner_texts()


def test_sign_in_with_authenticator_and_recovery_code(page, site, screenshot):
    sign_in(page, site)
    codes = set_up_authenticator(page, site)
    assert len(codes) == 10
    screenshot("codes")
    page.get_by_role("link", name="I saved them").click()
    sign_out(page)
    sign_in(page, site)
    expect(page.get_by_role("heading", name="Two-factor authentication")).to_be_visible()
    page.get_by_label("Code from your authenticator app").fill("000000")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("This code is wrong")).to_be_visible()
    screenshot("second-step")
    page.get_by_label("Code from your authenticator app").fill(
        pyotp.TOTP(site.get_totp_secret()).at(int(time.time()) + 30)
    )
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("navigation").first).to_be_visible()
    sign_out(page)
    sign_in(page, site)
    page.get_by_label("Code from your authenticator app").fill(codes[3])
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("navigation").first).to_be_visible()
    page.goto(f"{site.url}/profile/security")
    expect(page.get_by_text("9 left")).to_be_visible()


def test_sign_in_with_passkey_alone_and_as_second_factor(page, site, screenshot):
    cdp_session = page.context.new_cdp_session(page)
    cdp_session.send("WebAuthn.enable")
    cdp_session.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR_OPTIONS})
    sign_in(page, site)
    expect(page.get_by_role("navigation").first).to_be_visible()
    page.goto(f"{site.url}/profile/passkeys/new")
    page.get_by_label("Name").fill("Laptop")
    page.get_by_label("Your password").fill("wrong")
    page.get_by_role("button", name="Add passkey").click()
    expect(page.get_by_text("This is not your password.")).to_be_visible()
    screenshot("new-passkey")
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Add passkey").click()
    expect(page.locator(".recovery-codes code")).to_have_count(10)
    page.goto(f"{site.url}/profile/security")
    expect(page.get_by_text("Laptop")).to_be_visible()
    screenshot("security")
    page.goto(f"{site.url}/profile/passkeys/new")
    page.get_by_label("Name").fill("Laptop again")
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Add passkey").click()
    expect(page.get_by_text("This device already has a passkey for your account.")).to_be_visible()
    sign_out(page)
    page.goto(f"{site.url}/sign-in?next=/profile/security")
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_role("heading", name="Security")).to_be_visible()
    sign_out(page)
    sign_in(page, site)
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("navigation").first).to_be_visible()
    page.goto(f"{site.url}/profile/security")
    page.get_by_role("link", name="Remove").click()
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_text("Passkey deleted.")).to_be_visible()
    sign_out(page)
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_text("The passkey could not be checked")).to_be_visible()


def test_password_reset_by_mail(page, site, screenshot):
    page.goto(f"{site.url}/sign-in")
    page.get_by_role("link", name="Forgot your password?").click()
    page.get_by_label("Email address").fill(EMAIL)
    page.get_by_role("button", name="Send the link").click()
    expect(page.get_by_role("heading", name="Check your email")).to_be_visible()
    link = re.search(r"http://localhost:\d+/reset-password/\S+", site.wait_for_mail("Reset your password"))[0]
    page.goto(link)
    page.get_by_label("New password", exact=True).fill(NEW_PASSWORD)
    page.get_by_label("Repeat new password").fill(NEW_PASSWORD)
    screenshot("choose")
    page.get_by_role("button", name="Set password").click()
    expect(page.get_by_text("Password set.")).to_be_visible()
    sign_in(page, site, PASSWORD)
    expect(page.get_by_text("The email address or the password is wrong.")).to_be_visible()
    sign_in(page, site, NEW_PASSWORD)
    expect(page.get_by_role("navigation").first).to_be_visible()
    assert EMAIL in site.wait_for_mail("Your password was changed")


def test_required_second_factor_blocks_other_pages(page, site, screenshot):
    with site.app.app_context():
        settings.update({"require_second_factor": "everybody"})
        session.commit()
    sign_in(page, site)
    expect(page.get_by_text("Set up two-factor authentication to continue")).to_be_visible()
    page.goto(f"{site.url}/instances")
    expect(page.get_by_role("heading", name="Security")).to_be_visible()
    screenshot("required")
    set_up_authenticator(page, site)
    page.goto(f"{site.url}/instances")
    expect(page.get_by_role("heading", name="Instances")).to_be_visible()


def test_sign_in_without_javascript(browser, site):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    try:
        sign_in(page, site)
        codes = set_up_authenticator(page, site)
        page.goto(f"{site.url}/profile/security")
        context.clear_cookies()
        sign_in(page, site)
        expect(page.get_by_role("button", name="Use a passkey")).to_be_hidden()
        page.get_by_label("Code from your authenticator app").fill(codes[0])
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    finally:
        context.close()
