"""Mails from the product's processes to a real mail server."""

import re
import urllib.parse
import urllib.request

import pytest

from tests.support.mail_server import installation_settings, mail_server  # noqa: F401  (fixtures)
from tests.support.ports import find_free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.processes


def request_password_reset(installation):
    data = urllib.parse.urlencode({"email": "customer@example.com"}).encode()
    request = urllib.request.Request(f"{installation.url}/forgot-password", data, {"Origin": installation.url})
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.url.endswith("/forgot-password/sent")


def test_worker_sends_mail(installation, mail_server):
    installation.start_all()
    request_password_reset(installation)
    (mail,) = wait_until(lambda: mail_server.mails, "the mail")
    assert re.search(rf"{installation.url}/reset-password/\S+", mail.get_body(("plain",)).get_content())
    assert "Mail: 127.0.0.1 is reachable" in installation.run_panel("doctor")


def test_mail_requested_without_redis_and_worker_is_sent_later(installation, mail_server):
    web = installation.start("web")
    wait_until(installation.is_answering, "the web process")
    request_password_reset(installation)
    web.terminate()
    web.wait(30)
    assert mail_server.mails == []
    installation.start_all()
    wait_until(lambda: mail_server.mails, "the mail")


def test_doctor_reports_missing_or_unreachable_mail_server(installation, mail_server):
    del installation.env["PANEL_MAIL_URL"]
    assert "no server (PANEL_MAIL_URL)" in installation.run_panel("doctor", status=1)
    installation.env["PANEL_MAIL_URL"] = f"smtp://127.0.0.1:{find_free_port()}"
    assert "FAILED  Mail: The mail server is not reachable" in installation.run_panel("doctor", status=1)
