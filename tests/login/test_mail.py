"""Mails: how they look, that none is lost, and that a real mail server gets them."""

import email
import email.policy
import ssl
import stat
from datetime import UTC, datetime, timedelta

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from sqlalchemy import select, text

from panel.core import mail
from panel.core.config import Config, ConfigError
from panel.core.db import session
from panel.models import Mail
from tests.conftest import queued_calls
from tests.processes.conftest import find_free_port
from worker.tasks import mail as sending

MAIL_CONTEXT = {
    "email": "ada@example.com",
    "link": "https://panel.example.com/reset-password/s3cret-Ümläut",
    "minutes": 60,
}


class MailServer:
    """What a mail server took. It says no as often as it is told to."""

    def __init__(self):
        self.mails, self.senders, self.refusals, self.users = [], [], [], []

    async def handle_RCPT(self, server, session, envelope, address, options):
        if self.refusals:
            return self.refusals.pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        self.mails.append(email.message_from_bytes(envelope.content, policy=email.policy.default))
        self.senders.append(envelope.mail_from)
        return "250 OK"

    def authenticate(self, server, session, envelope, mechanism, data):
        self.users.append((data.login.decode(), data.password.decode()))
        return AuthResult(success=data.password == b"p@ss:word")


@pytest.fixture
def server(rolled_back_app, change_config):
    """A real mail server, and the panel set to use it: `server("smtp")`."""
    running = []

    def start(url="smtp://127.0.0.1:{port}", **options):
        box = MailServer()
        if options.pop("login", False):
            options |= {"authenticator": box.authenticate, "auth_required": True, "auth_require_tls": False}
        controller = Controller(box, hostname="127.0.0.1", port=find_free_port(), **options)
        controller.start()
        running.append(controller)
        change_config(mail_url=url.format(port=controller.port), mail_from="Panel <panel@example.com>")
        return box

    yield start
    for controller in running:
        controller.stop()


def queue_mail(**facts):
    made = mail.send("ada@example.com", "security_changed", **{**ALERT_CONTEXT, **facts})
    session.commit()
    return made


ALERT_CONTEXT = {
    "what": "Your password was changed",
    "email": "ada@example.com",
    "browser": "Firefox on Linux",
    "ip": "203.0.113.7",
    "at": "now",
    "link": "https://panel.example.com/profile/security",
}


def test_a_mail_server_gets_text_and_html(server, run_tasks):
    box = server()
    row = queue_mail(browser="<b>Fire</b>fox")
    run_tasks()
    (got,) = box.mails
    assert got["Subject"] == "Your password was changed"
    assert (got["From"], got["To"]) == ("Panel <panel@example.com>", "ada@example.com")
    assert got["Message-ID"] == f"<{row.id}@example.com>"
    assert got["Auto-Submitted"] == "auto-generated"
    plain, html = (got.get_body((kind,)).get_content() for kind in ("plain", "html"))
    assert "Review your security settings: https://panel.example.com/profile/security" in plain
    assert 'href="https://panel.example.com/profile/security"' in html
    assert "&lt;b&gt;Fire&lt;/b&gt;fox" in html
    assert session.scalars(select(Mail)).all() == []


def test_notifications_are_sent_after_the_commit_and_dropped_on_rollback(server, run_tasks):
    box = server()
    mail.send("ada@example.com", "security_changed", **ALERT_CONTEXT)
    assert queued_calls == []
    session.rollback()
    session.commit()
    run_tasks()
    assert box.mails == []


def test_what_a_mail_says_is_not_readable_while_it_waits(rolled_back_app):
    mail.send("ada@example.com", "password_reset", **MAIL_CONTEXT)
    session.commit()
    kept = session.execute(text("select * from mails")).one()
    assert not any("s3cret" in str(value) for value in kept)
    assert session.scalars(select(Mail)).one().facts == MAIL_CONTEXT


def test_a_mail_whose_notification_was_lost_is_sent(server, run_tasks):
    box = server()
    queue_mail()
    queued_calls.clear()
    sending.send_due()
    run_tasks()
    assert len(box.mails) == 1


def test_a_server_that_is_away_gets_the_mail_later(server, run_tasks, advance_clock, change_config):
    change_config(mail_url=f"smtp://127.0.0.1:{find_free_port()}")
    row = queue_mail()
    run_tasks()
    assert (row.attempts, "refused" in row.error) == (1, True)
    sending.send_due()
    assert queued_calls == []
    box = server()
    advance_clock(minutes=1, seconds=1)
    sending.send_due()
    run_tasks()
    assert len(box.mails) == 1
    assert session.scalars(select(Mail)).all() == []


def test_a_refusal_for_now_is_no_refusal_for_ever(server, run_tasks, advance_clock):
    box = server()
    box.refusals = ["451 come back later", "421 busy"]
    queue_mail()
    for minutes in (0, 2, 3):
        advance_clock(minutes=minutes)
        sending.send_due()
        run_tasks()
    assert len(box.mails) == 1


def test_an_address_that_does_not_exist_is_given_up(server, run_tasks):
    box = server()
    box.refusals = ["550 no such user"]
    queue_mail()
    run_tasks()
    assert box.mails == []
    assert session.scalars(select(Mail)).all() == []


def test_a_mail_is_given_up_after_a_day(server, run_tasks, advance_clock, change_config):
    change_config(mail_url=f"smtp://127.0.0.1:{find_free_port()}")
    row = queue_mail()
    hours = 0
    while session.get(Mail, row.id):
        run_tasks()
        advance_clock(hours=1)
        hours += 1
        sending.send_due()
        assert hours < 100
    assert hours >= 24
    assert sum(sending.MAIL_RETRY_DELAYS, timedelta()) > timedelta(hours=24)


def test_two_workers_send_a_mail_once(server, run_tasks):
    box = server()
    row = queue_mail()
    queued_calls.append(("worker.tasks.mail.send", (row.id,)))
    run_tasks()
    assert len(box.mails) == 1
    assert sending.claim(row.id) is None


def test_a_mail_whose_worker_died_is_sent_by_another(server, run_tasks, advance_clock):
    box = server()
    row = queue_mail()
    queued_calls.clear()
    assert sending.claim(row.id)
    sending.send_due()
    assert queued_calls == []
    advance_clock(minutes=6)
    sending.send_due()
    run_tasks()
    assert len(box.mails) == 1


def test_a_name_and_a_password_for_the_server(server, run_tasks):
    box = server("smtp://ada%40example.com:p%40ss%3Aword@127.0.0.1:{port}", login=True)
    queue_mail()
    run_tasks()
    assert box.users == [("ada@example.com", "p@ss:word")]
    assert len(box.mails) == 1


@pytest.fixture
def certificate(tmp_path, monkeypatch):
    """A certificate for localhost that the panel trusts."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name.from_rfc4514_string("CN=localhost")
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1)
    )
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    files[0].write_bytes(made.sign(key, SHA256()).public_bytes(Encoding.PEM))
    files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    monkeypatch.setenv("SSL_CERT_FILE", str(files[0]))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*files)
    return context


def test_tls_from_the_start_or_later(server, run_tasks, certificate):
    for url, options in (
        ("smtps://localhost:{port}", {"ssl_context": certificate}),
        ("smtp+starttls://localhost:{port}", {"tls_context": certificate, "require_starttls": True}),
    ):
        box = server(url, **options)
        queue_mail()
        run_tasks()
        assert len(box.mails) == 1, url


def test_a_server_that_is_not_who_it_says_gets_nothing(server, run_tasks, certificate, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE")
    box = server("smtp+starttls://localhost:{port}", tls_context=certificate, require_starttls=True)
    row = queue_mail()
    run_tasks()
    assert box.mails == []
    assert "certificate" in row.error.lower()


def test_without_a_server_mails_are_files_for_the_panel_alone(rolled_back_app, run_tasks):
    row = queue_mail()
    run_tasks()
    file = rolled_back_app.extensions["config"].data_dir / "mail" / f"{row.id}.eml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert email.message_from_bytes(file.read_bytes())["To"] == "ada@example.com"


def test_a_template_that_does_not_exist_is_found_out_at_once(rolled_back_app):
    with pytest.raises(Exception, match="nothing_like_this"):
        mail.send("ada@example.com", "nothing_like_this")


@pytest.mark.parametrize("name", [path.stem for path in (mail.ROOT / "templates" / "mail").glob("*.txt")])
def test_every_mail_has_a_subject_and_a_body(name):
    source = (mail.ROOT / "templates" / "mail" / f"{name}.txt").read_text()
    subject, empty, body = source.split("\n", 2)
    assert subject.strip()
    assert empty == ""
    assert body.strip()


@pytest.mark.parametrize("url", ["localhost:25", "smtp://", "http://mail.example.com", "smtp://a b", "smtp://x:port"])
def test_an_unusable_mail_server_stops_the_start(url, tmp_path):
    with pytest.raises(ConfigError, match="PANEL_MAIL_URL"):
        Config(data_dir=tmp_path, mail_url=url)


def test_the_sender_is_of_the_public_address_unless_it_is_said(tmp_path):
    made = Config(data_dir=tmp_path, public_url="https://panel.example.com:8443")
    assert made.mail_from == "panel@panel.example.com"
    assert Config(data_dir=tmp_path, mail_from="me@example.com").mail_from == "me@example.com"


@pytest.mark.parametrize(
    ("url", "sender"),
    [
        ("http://192.0.2.10:8000", "panel@[192.0.2.10]"),
        ("https://[2001:db8::1]", "panel@[IPv6:2001:db8::1]"),
    ],
)
def test_the_sender_at_an_ip_address_stands_in_brackets(server, run_tasks, change_config, tmp_path, url, sender):
    box = server()
    made = Config(data_dir=tmp_path, public_url=url).mail_from
    assert made == sender
    change_config(mail_from=made)
    row = queue_mail()
    run_tasks()
    (got,) = box.mails
    assert got["From"] == sender
    assert got["Message-ID"] == f"<{row.id}@{sender.removeprefix('panel@')}>"
    assert box.senders == [sender]
