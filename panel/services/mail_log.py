"""The log of sent mails, without their contents."""

from datetime import timedelta

from sqlalchemy import Select, delete, select

from panel.core import clock
from panel.core.db import session
from panel.models import Mail, MailLogEntry

RETENTION = timedelta(days=30)
MAX_ERROR_CHARACTERS = 1000


def listing(*, search: str | None = None, status: str | None = None) -> Select[MailLogEntry]:
    """Select entries, newest first."""
    query = select(MailLogEntry).order_by(MailLogEntry.id.desc())
    if search:
        query = query.where(
            MailLogEntry.recipient.icontains(search, autoescape=True)
            | MailLogEntry.subject.icontains(search, autoescape=True)
        )
    return query.where(MailLogEntry.status == status) if status else query


def record(row: Mail, status: str, *, subject: str = "", error: str | None = None) -> None:
    entry = MailLogEntry(recipient=row.recipient, template=row.template, status=status, attempts=row.attempts)
    entry.subject, entry.error = subject[:255], error[:MAX_ERROR_CHARACTERS] if error else None
    session.add(entry)


def purge_expired() -> None:
    session.execute(delete(MailLogEntry).where(MailLogEntry.created_at < clock.now() - RETENTION))
