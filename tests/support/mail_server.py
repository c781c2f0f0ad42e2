"""An SMTP server that collects mails."""

import email
import email.policy

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from tests.support.ports import find_free_port


@pytest.fixture
def mail_server():
    smtp_handler = MailServer()
    smtp_handler.controller = Controller(smtp_handler, hostname="127.0.0.1", port=find_free_port())
    smtp_handler.controller.start()
    yield smtp_handler
    smtp_handler.controller.stop()


@pytest.fixture
def installation_settings(mail_server):
    return {"PANEL_MAIL_URL": f"smtp://127.0.0.1:{mail_server.controller.port}", "PANEL_MAIL_FROM": "panel@example.com"}


class MailServer:
    """The handler of an SMTP server. Collects mails, and answers recipients with the `rejections` first."""

    def __init__(self):
        self.mails, self.senders, self.rejections, self.users = [], [], [], []

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
