"""Mails through the product's own processes to a real mail server."""

import re
import urllib.parse
import urllib.request

import pytest
from aiosmtpd.controller import Controller

from tests.login.test_mail import Box
from tests.processes.conftest import free_port, wait_for

pytestmark = pytest.mark.processes


@pytest.fixture
def box():
    found = Box()
    found.controller = Controller(found, hostname="127.0.0.1", port=free_port())
    found.controller.start()
    yield found
    found.controller.stop()


@pytest.fixture
def settings(box):
    return {"PANEL_MAIL_URL": f"smtp://127.0.0.1:{box.controller.port}", "PANEL_MAIL_FROM": "panel@example.com"}


def ask(installation):
    data = urllib.parse.urlencode({"email": "customer@example.com"}).encode()
    request = urllib.request.Request(f"{installation.url}/forgot-password", data, {"Origin": installation.url})
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.url.endswith("/forgot-password/sent")


def test_a_mail_is_sent_by_a_worker(installation, box):
    installation.up()
    ask(installation)
    (mail,) = wait_for(lambda: box.mails, "the mail")
    assert re.search(rf"{installation.url}/reset-password/\S+", mail.get_body(("plain",)).get_content())
    assert "Mail: 127.0.0.1 answers" in installation.panel("doctor")


def test_a_mail_that_was_asked_for_while_there_was_no_redis_and_no_worker_is_sent_later(installation, box):
    web = installation.start("web")
    wait_for(installation.answers, "the web process")
    ask(installation)
    web.terminate()
    web.wait(30)
    assert box.mails == []
    installation.up()
    wait_for(lambda: box.mails, "the mail")


def test_the_doctor_says_that_mails_reach_nobody(installation, box):
    del installation.env["PANEL_MAIL_URL"]
    assert "no server (PANEL_MAIL_URL)" in installation.panel("doctor", status=1)
    installation.env["PANEL_MAIL_URL"] = f"smtp://127.0.0.1:{free_port()}"
    assert "WRONG Mail: The mail server does not answer" in installation.panel("doctor", status=1)
