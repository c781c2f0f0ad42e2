"""Mails: their format, retries, and delivery to a real SMTP server."""

import email
import email.policy
import ssl
import stat
from datetime import UTC, datetime, timedelta

import pytest
from aiosmtpd.controller import Controller
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from sqlalchemy import select, text

from panel.core import mail
from panel.core.config import Config, ConfigError
from panel.core.db import session
from panel.models import Mail
from tests.support.mail_server import MailServer
from tests.support.ports import find_free_port
from tests.support.task_queue import queued_calls
from worker.tasks import mail as mail_tasks

MAIL_CONTEXT = {
    "email": "ada@example.com",
    "link": "https://panel.example.com/reset-password/s3cret-Ümläut",
    "minutes": 60,
}


@pytest.fixture
def start_mail_server(rolled_back_app, change_config):
    """Return a function that starts an SMTP server and configures the panel to use it: `start_mail_server()`."""
    controllers = []

    def start(url="smtp://127.0.0.1:{port}", **options):
        server = MailServer()
        if options.pop("login", False):
            options |= {"authenticator": server.authenticate, "auth_required": True, "auth_require_tls": False}
        controller = Controller(server, hostname="127.0.0.1", port=find_free_port(), **options)
        controller.start()
        controllers.append(controller)
        change_config(mail_url=url.format(port=controller.port), mail_from="Panel <panel@example.com>")
        return server

    yield start
    for controller in controllers:
        controller.stop()


def queue_mail(**facts):
    row = mail.send("ada@example.com", "security_changed", **{**ALERT_CONTEXT, **facts})
    session.commit()
    return row


ALERT_CONTEXT = {
    "what": "Your password was changed",
    "email": "ada@example.com",
    "browser": "Firefox on Linux",
    "ip": "203.0.113.7",
    "at": "2026-05-03T10:30:00Z",
    "zone": "Europe/Berlin",
    "link": "https://panel.example.com/profile/security",
}


def test_mail_has_text_and_html_parts(start_mail_server, run_tasks):
    server = start_mail_server()
    row = queue_mail(browser="<b>Fire</b>fox")
    run_tasks()
    (message,) = server.mails
    assert message["Subject"] == "Your password was changed"
    assert (message["From"], message["To"]) == ("Panel <panel@example.com>", "ada@example.com")
    assert message["Message-ID"] == f"<{row.id}@example.com>"
    assert message["Auto-Submitted"] == "auto-generated"
    plain, html = (message.get_body((kind,)).get_content() for kind in ("plain", "html"))
    assert "Review your security settings: https://panel.example.com/profile/security" in plain
    assert "Time: Sun 03 May 2026, 12:30:00 CEST" in plain
    assert 'href="https://panel.example.com/profile/security"' in html
    assert "&lt;b&gt;Fire&lt;/b&gt;fox" in html
    assert session.scalars(select(Mail)).all() == []


def test_mail_is_sent_after_commit_and_dropped_on_rollback(start_mail_server, run_tasks):
    server = start_mail_server()
    mail.send("ada@example.com", "security_changed", **ALERT_CONTEXT)
    assert queued_calls == []
    session.rollback()
    session.commit()
    run_tasks()
    assert server.mails == []


def test_queued_mail_is_encrypted_in_database(rolled_back_app):
    mail.send("ada@example.com", "password_reset", **MAIL_CONTEXT)
    session.commit()
    columns = session.execute(text("select * from mails")).one()
    assert not any("s3cret" in str(value) for value in columns)
    assert session.scalars(select(Mail)).one().facts == MAIL_CONTEXT


def test_mail_with_lost_notification_is_sent(start_mail_server, run_tasks):
    server = start_mail_server()
    queue_mail()
    queued_calls.clear()
    mail_tasks.send_due()
    run_tasks()
    assert len(server.mails) == 1


def test_mail_is_retried_when_server_is_unreachable(start_mail_server, run_tasks, advance_clock, change_config):
    change_config(mail_url=f"smtp://127.0.0.1:{find_free_port()}")
    row = queue_mail()
    run_tasks()
    assert (row.attempts, "refused" in row.error) == (1, True)
    mail_tasks.send_due()
    assert queued_calls == []
    server = start_mail_server()
    advance_clock(minutes=1, seconds=1)
    mail_tasks.send_due()
    run_tasks()
    assert len(server.mails) == 1
    assert session.scalars(select(Mail)).all() == []


def test_temporary_smtp_error_is_retried(start_mail_server, run_tasks, advance_clock):
    server = start_mail_server()
    server.rejections = ["451 come back later", "421 busy"]
    queue_mail()
    for minutes in (0, 2, 3):
        advance_clock(minutes=minutes)
        mail_tasks.send_due()
        run_tasks()
    assert len(server.mails) == 1


def test_permanent_smtp_error_deletes_mail(start_mail_server, run_tasks):
    server = start_mail_server()
    server.rejections = ["550 no such user"]
    queue_mail()
    run_tasks()
    assert server.mails == []
    assert session.scalars(select(Mail)).all() == []


def test_mail_is_deleted_after_one_day_of_retries(start_mail_server, run_tasks, advance_clock, change_config):
    change_config(mail_url=f"smtp://127.0.0.1:{find_free_port()}")
    row = queue_mail()
    hours = 0
    while session.get(Mail, row.id):
        run_tasks()
        advance_clock(hours=1)
        hours += 1
        mail_tasks.send_due()
        assert hours < 100
    assert hours >= 24
    assert sum(mail_tasks.MAIL_RETRY_DELAYS, timedelta()) > timedelta(hours=24)


def test_duplicate_notification_sends_mail_once(start_mail_server, run_tasks):
    server = start_mail_server()
    row = queue_mail()
    queued_calls.append(("worker.tasks.mail.send", (row.id,)))
    run_tasks()
    assert len(server.mails) == 1
    assert mail_tasks.claim(row.id) is None


def test_mail_of_lost_worker_is_sent_later(start_mail_server, run_tasks, advance_clock):
    server = start_mail_server()
    row = queue_mail()
    queued_calls.clear()
    assert mail_tasks.claim(row.id)
    mail_tasks.send_due()
    assert queued_calls == []
    advance_clock(minutes=6)
    mail_tasks.send_due()
    run_tasks()
    assert len(server.mails) == 1


def test_mail_server_login_uses_credentials_of_url(start_mail_server, run_tasks):
    server = start_mail_server("smtp://ada%40example.com:p%40ss%3Aword@127.0.0.1:{port}", login=True)
    queue_mail()
    run_tasks()
    assert server.users == [("ada@example.com", "p@ss:word")]
    assert len(server.mails) == 1


@pytest.fixture
def server_ssl_context(tmp_path, monkeypatch):
    """A TLS context with a certificate for localhost that the panel trusts."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name.from_rfc4514_string("CN=localhost")
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1)
    )
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    files[0].write_bytes(builder.sign(key, SHA256()).public_bytes(Encoding.PEM))
    files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    monkeypatch.setenv("SSL_CERT_FILE", str(files[0]))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*files)
    return context


def test_mail_is_sent_by_implicit_tls_and_starttls(start_mail_server, run_tasks, server_ssl_context):
    for url, options in (
        ("smtps://localhost:{port}", {"ssl_context": server_ssl_context}),
        ("smtp+starttls://localhost:{port}", {"tls_context": server_ssl_context, "require_starttls": True}),
    ):
        server = start_mail_server(url, **options)
        queue_mail()
        run_tasks()
        assert len(server.mails) == 1, url


def test_untrusted_server_certificate_sends_no_mail(start_mail_server, run_tasks, server_ssl_context, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE")
    server = start_mail_server(
        "smtp+starttls://localhost:{port}", tls_context=server_ssl_context, require_starttls=True
    )
    row = queue_mail()
    run_tasks()
    assert server.mails == []
    assert "certificate" in row.error.lower()


def test_mail_without_server_is_written_to_private_file(rolled_back_app, run_tasks):
    row = queue_mail()
    run_tasks()
    file = rolled_back_app.extensions["config"].data_dir / "mail" / f"{row.id}.eml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert email.message_from_bytes(file.read_bytes())["To"] == "ada@example.com"


def test_unknown_mail_template_is_rejected(rolled_back_app):
    with pytest.raises(Exception, match="nothing_like_this"):
        mail.send("ada@example.com", "nothing_like_this")


@pytest.mark.parametrize("name", [path.stem for path in (mail.ROOT / "templates" / "mail").glob("*.txt")])
def test_mail_template_has_subject_and_body(name):
    source = (mail.ROOT / "templates" / "mail" / f"{name}.txt").read_text()
    subject, empty, body = source.split("\n", 2)
    assert subject.strip()
    assert empty == ""
    assert body.strip()


@pytest.mark.parametrize("url", ["localhost:25", "smtp://", "http://mail.example.com", "smtp://a b", "smtp://x:port"])
def test_config_rejects_invalid_mail_url(url, tmp_path):
    with pytest.raises(ConfigError, match="PANEL_MAIL_URL"):
        Config(data_dir=tmp_path, mail_url=url)


def test_default_sender_uses_public_host(tmp_path):
    config = Config(data_dir=tmp_path, public_url="https://panel.example.com:8443")
    assert config.mail_from == "panel@panel.example.com"
    assert Config(data_dir=tmp_path, mail_from="me@example.com").mail_from == "me@example.com"


@pytest.mark.parametrize(
    ("url", "sender"),
    [
        ("http://192.0.2.10:8000", "panel@[192.0.2.10]"),
        ("https://[2001:db8::1]", "panel@[IPv6:2001:db8::1]"),
    ],
)
def test_sender_with_ip_address_uses_address_literal(
    start_mail_server, run_tasks, change_config, tmp_path, url, sender
):
    server = start_mail_server()
    mail_from = Config(data_dir=tmp_path, public_url=url).mail_from
    assert mail_from == sender
    change_config(mail_from=mail_from)
    row = queue_mail()
    run_tasks()
    (message,) = server.mails
    assert message["From"] == sender
    assert message["Message-ID"] == f"<{row.id}@{sender.removeprefix('panel@')}>"
    assert server.senders == [sender]
