"""Sending mail by SMTP or, without a mail server, as files in the data directory."""

import os
import smtplib
import ssl
from contextlib import contextmanager
from datetime import timedelta
from urllib.parse import unquote, urlsplit

import structlog
from sqlalchemy import delete, select, update

from panel.core import clock, context, jobs, mail
from panel.core.db import session
from panel.core.languages import DEFAULT_LANGUAGE
from panel.models import Mail
from panel.services import accounts, brands, mail_log, mail_templates, mass_mails, passwords
from worker.engine.registry import periodic

log = structlog.get_logger()

SMTP_TIMEOUT_SECONDS = 20
"""Seconds that a mail server may take for one answer."""

MAIL_LEASE = timedelta(minutes=5)
"""How long one attempt holds the row. After it, the worker counts as lost."""

MAIL_RETRY_DELAYS = [timedelta(minutes=minutes) for minutes in (1, 2, 5, 15, 30)] + [timedelta(hours=1)] * 24
"""Pauses between attempts. After the last attempt the mail is deleted."""

LATE_FACTS_BUILDERS = {"password_reset": passwords.find_reset_context}
"""Builders of template values for mails that need them at the time of sending.

When one returns None, no mail is sent.
"""

MAX_MAILS_PER_RUN = 200

SENT_ONCE_TEMPLATES = (mass_mails.MAIL_TEMPLATE,)
"""Mails that are not sent again after an attempt whose result is unknown."""


@periodic(seconds=15)
def send_due():
    """Enqueue due mails: retries, and those whose notification was lost."""
    due = select(Mail.id).where(Mail.due_at <= clock.now()).order_by(Mail.due_at, Mail.id).limit(MAX_MAILS_PER_RUN)
    for mail_id in session.scalars(due).all():
        jobs.enqueue_call("worker.tasks.mail.send", mail_id)


def send(mail_id):
    """Make one attempt. No transaction is open during the SMTP dialog."""
    claimed = claim(mail_id)
    if claimed is None:
        return
    row, is_unknown = claimed
    if is_unknown and row.template in SENT_ONCE_TEMPLATES:
        give_up(row, "unknown", "The worker was lost during an attempt.")
        return
    subject = ""
    facts = LATE_FACTS_BUILDERS[row.template](row.recipient) if row.template in LATE_FACTS_BUILDERS else row.facts
    language = accounts.get_language(row.recipient)
    session.commit()
    if facts is not None:
        try:
            message = compose(row, facts, language)
            subject = message["Subject"]
            submit_message(message, context.current().config)
        except Exception as error:  # any error: the mail must not be lost
            back_off(row, error, subject)
            return
        log.info("mail_sent", template=row.template, mail_id=row.id)
        mail_log.record(row, "sent", subject=subject)
    session.execute(delete(Mail).where(Mail.id == row.id))
    session.commit()


def compose(row, facts, language):
    """Return the message, with the brand of its recipient and in the operators' words if they have written some."""
    language = language or row.facts.get("language", DEFAULT_LANGUAGE)
    brand = brands.get_of_mail(row.recipient, brand_id=row.facts.get("brand_id"), host=row.facts.get("host", ""))
    facts = mail.add_addresses(facts, brand)
    text = mail_templates.render_custom(row.template, facts, language, brand)
    session.commit()
    return mail.compose(row, facts, language, brand, text)


def give_up(row, status, error, subject=""):
    """Delete the mail, which is not sent again, and log that."""
    mail_log.record(row, status, subject=subject, error=error)
    session.delete(row)
    session.commit()


def claim(mail_id):
    """Claim the mail. Return its row, and whether the result of an earlier attempt is unknown; None when another
    worker has it or it was sent. An attempt that fails records its error, which the claim clears."""
    now = clock.now()
    due = Mail.id == mail_id, Mail.due_at <= now
    before = session.execute(select(Mail.attempts, Mail.error).where(*due)).one_or_none()
    statement = update(Mail).where(*due, Mail.attempts == (before.attempts if before else None))
    values = {"due_at": now + MAIL_LEASE, "attempts": Mail.attempts + 1, "error": None}
    if before is None or not session.execute(statement.values(**values)).rowcount:
        session.rollback()
        return None
    session.commit()
    row = session.scalar(select(Mail).where(Mail.id == mail_id).execution_options(populate_existing=True))
    return row, before.attempts > 0 and before.error is None


def back_off(row, error, subject):
    if row.attempts > len(MAIL_RETRY_DELAYS) or is_rejected_permanently(error):
        log.error("mail_failed", template=row.template, mail_id=row.id, attempts=row.attempts, error=str(error))
        give_up(row, "failed", str(error), subject)
        return
    log.warning("mail_deferred", template=row.template, mail_id=row.id, attempts=row.attempts, error=str(error))
    row.due_at, row.error = clock.now() + MAIL_RETRY_DELAYS[row.attempts - 1], str(error)[:255]
    session.commit()


def is_rejected_permanently(error):
    """Return whether the server rejects all recipients for good."""
    if not isinstance(error, smtplib.SMTPRecipientsRefused):
        return False
    return all(code >= 500 for code, _ in error.recipients.values())


def submit_message(message, config):
    if not config.mail_url:
        return write_file(message, config.data_dir / "mail")
    with smtp_connection(config.mail_url) as connection:
        sender = message["From"].addresses[0].addr_spec  # smtplib cannot read an IP address in brackets
        connection.send_message(message, from_addr=sender)


@contextmanager
def smtp_connection(url):
    """Yield a connection to the mail server, logged in. TLS certificates are verified where the URL asks for TLS."""
    server = urlsplit(url)
    smtp_class = smtplib.SMTP_SSL if server.scheme == "smtps" else smtplib.SMTP
    context = {"context": ssl.create_default_context()} if smtp_class is smtplib.SMTP_SSL else {}
    port = server.port or {"smtp": 25, "smtps": 465}.get(server.scheme, 587)
    with smtp_class(server.hostname, port, timeout=SMTP_TIMEOUT_SECONDS, **context) as connection:
        if server.scheme == "smtp+starttls":
            connection.starttls(context=ssl.create_default_context())
        if server.username:
            connection.login(unquote(server.username), unquote(server.password or ""))
        yield connection


def write_file(message, directory):
    """Write the mail to a file that only the panel's user can read. It may contain a link that opens an account."""
    directory.mkdir(mode=0o700, exist_ok=True)
    name = f"{message['Message-ID'].strip('<>').partition('@')[0]}.eml"
    with open(os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(message.as_bytes())
