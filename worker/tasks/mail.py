"""Sending mails: by SMTP, or without a mail server as files below the data directory."""

import os
import smtplib
import ssl
from contextlib import contextmanager
from datetime import timedelta
from urllib.parse import unquote, urlsplit

import structlog
from sqlalchemy import delete, select, update

from panel.core import clock, jobs, mail
from panel.core.db import session
from panel.models import Mail
from panel.services import passwords

log = structlog.get_logger()

SMTP_TIMEOUT_SECONDS = 20
"""Seconds that a mail server may take for one answer."""

MAIL_LEASE = timedelta(minutes=5)
"""How long one attempt holds the row: after it the worker is taken for lost."""

MAIL_RETRY_DELAYS = [timedelta(minutes=minutes) for minutes in (1, 2, 5, 15, 30)] + [timedelta(hours=1)] * 24
"""Between attempts. After the last one the mail is given up."""

LATE_FACTS_BUILDERS = {"password_reset": passwords.find_reset_context}
"""Mails whose facts are found out when they are sent. Where there are none, nobody gets a mail."""

MAX_MAILS_PER_RUN = 200


def send_due():
    """Rings for mails whose time has come: those whose bell was lost and those that are tried again."""
    due = select(Mail.id).where(Mail.due_at <= clock.now()).order_by(Mail.due_at, Mail.id).limit(MAX_MAILS_PER_RUN)
    for mail_id in session.scalars(due).all():
        jobs.enqueue_call("worker.tasks.mail.send", mail_id)


def send(mail_id):
    """One attempt. The database is not held while the mail server is talked to."""
    row = claim(mail_id)
    if row is None:
        return
    facts = LATE_FACTS_BUILDERS[row.template](row.recipient) if row.template in LATE_FACTS_BUILDERS else row.facts
    session.commit()
    if facts is not None:
        try:
            submit_message(mail.compose(row, facts), mail.config)
        except Exception as error:  # whatever it is, the mail is not lost by it
            return back_off(row, error)
        log.info("mail_sent", template=row.template, mail_id=row.id)
    session.execute(delete(Mail).where(Mail.id == row.id))
    session.commit()


def claim(mail_id):
    """The row, for this worker alone, or None when another one has it or it was sent."""
    now = clock.now()
    mine = update(Mail).where(Mail.id == mail_id, Mail.due_at <= now)
    if not session.execute(mine.values(due_at=now + MAIL_LEASE, attempts=Mail.attempts + 1)).rowcount:
        session.rollback()
        return None
    session.commit()
    return session.scalar(select(Mail).where(Mail.id == mail_id).execution_options(populate_existing=True))


def back_off(row, error):
    if row.attempts > len(MAIL_RETRY_DELAYS) or is_rejected_permanently(error):
        log.error("mail_given_up", template=row.template, mail_id=row.id, attempts=row.attempts, error=str(error))
        session.delete(row)
    else:
        log.warning("mail_put_off", template=row.template, mail_id=row.id, attempts=row.attempts, error=str(error))
        row.due_at, row.error = clock.now() + MAIL_RETRY_DELAYS[row.attempts - 1], str(error)[:255]
    session.commit()


def is_rejected_permanently(error):
    """The server knows this address and will never take mail for it."""
    if not isinstance(error, smtplib.SMTPRecipientsRefused):
        return False
    return all(code >= 500 for code, _ in error.recipients.values())


def submit_message(message, config):
    if not config.mail_url:
        return write_file(message, config.data_dir / "mail")
    with smtp_connection(config.mail_url) as line:
        line.send_message(message)


@contextmanager
def smtp_connection(url):
    """The mail server, ready to take mails. It has shown a certificate where the address asks for TLS."""
    server = urlsplit(url)
    kind = smtplib.SMTP_SSL if server.scheme == "smtps" else smtplib.SMTP
    context = {"context": ssl.create_default_context()} if kind is smtplib.SMTP_SSL else {}
    port = server.port or {"smtp": 25, "smtps": 465}.get(server.scheme, 587)
    with kind(server.hostname, port, timeout=SMTP_TIMEOUT_SECONDS, **context) as line:
        if server.scheme == "smtp+starttls":
            line.starttls(context=ssl.create_default_context())
        if server.username:
            line.login(unquote(server.username), unquote(server.password or ""))
        yield line


def write_file(message, directory):
    """A file for each mail, readable by the panel's user alone: there may be a link in it that opens an account."""
    directory.mkdir(mode=0o700, exist_ok=True)
    name = f"{message['Message-ID'].strip('<>').partition('@')[0]}.eml"
    with open(os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(message.as_bytes())
