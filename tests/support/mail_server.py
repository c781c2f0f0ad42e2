"""An SMTP server that collects mails."""

import email
import email.policy
from contextlib import contextmanager

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from tests.support.ports import find_free_port


@contextmanager
def run_mail_server():
    smtp_handler = MailServer()
    smtp_handler.controller = Controller(smtp_handler, hostname="127.0.0.1", port=find_free_port())
    smtp_handler.controller.start()
    try:
        yield smtp_handler
    finally:
        smtp_handler.controller.stop()


@pytest.fixture
def mail_server():
    with run_mail_server() as server:
        yield server


@pytest.fixture
def installation_settings(mail_server):
    return mail_server.settings


class MailServer:
    """The handler of an SMTP server. Collects mails, and answers recipients with the `rejections` first."""

    def __init__(self):
        self.mails, self.senders, self.rejections, self.users = [], [], [], []

    @property
    def settings(self):
        """The settings of an installation that sends its mails to this server."""
        return {"PANEL_MAIL_URL": f"smtp://127.0.0.1:{self.controller.port}", "PANEL_MAIL_FROM": "panel@example.com"}

    async def handle_RCPT(self, server, session, envelope, address, options):
        if self.rejections:
            return self.rejections.pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        self.mails.append(email.message_from_bytes(envelope.content, policy=email.policy.default))
        self.senders.append(envelope.mail_from)
        return "250 OK"

    def authenticate(self, server, session, envelope, mechanism, data):
        self.users.append((data.login.decode(), data.password.decode()))
        return AuthResult(success=data.password == b"p@ss:word")
