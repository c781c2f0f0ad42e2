"""Mass mails: who gets them, and handing them to the mail queue at a limited rate."""

from datetime import timedelta
from typing import Any

from sqlalchemy import Select, exists, func, insert, literal, select, update
from sqlalchemy.orm import joinedload

from panel.core import clock, mail
from panel.core.db import refresh_with_lock, session, with_lock
from panel.core.errors import Conflict
from panel.core.messages import message
from panel.models import Account, HypervisorGroup, Instance, MassMail, MassMailRecipient, Member
from panel.services import placeholders
from panel.services.crud import get_or_404, update_fields

MAIL_TEMPLATE = "mass_mail"
PLACEHOLDERS = ("name", "email")
BATCH_INTERVAL = timedelta(seconds=55)
"""Time between two batches of a mail. A little less than the interval of the job, which varies."""
EXAMPLE_VALUES = {"name": "Ada Lovelace", "email": "ada@example.com"}


def listing() -> Select[MassMail]:
    """Select all mass mails, newest first."""
    return select(MassMail).options(joinedload(MassMail.group)).order_by(MassMail.id.desc())


def get(mass_mail_id: str) -> MassMail:
    return get_or_404(MassMail, mass_mail_id, message("No such mass mail."))


def create(*, name: str, text: str, mails_per_minute: int, group_id: Any = None) -> MassMail:
    """Create a draft. Raise Invalid for a placeholder that does not exist."""
    values = {"name": name, "text": text, "mails_per_minute": mails_per_minute, "group_id": group_id}
    row = MassMail(**resolve_values(values))
    session.add(row)
    session.flush()
    return row


def update_mass_mail(row: MassMail, **changes: Any) -> MassMail:
    """Change the given fields of a draft."""
    changes = resolve_values(changes)
    ensure_status(row, "draft")
    return update_fields(row, changes)


def resolve_values(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values, with the location's id as text. Raise Invalid for an unknown placeholder or location."""
    for field, name in (("subject", "name"), ("text", "text")):
        if name in values:
            placeholders.ensure_valid(field, values[name], PLACEHOLDERS)
    if values.get("group_id"):
        get_or_404(HypervisorGroup, str(values["group_id"]), message("No such location."), "group_id")
        values = values | {"group_id": str(values["group_id"])}
    return values


def preview(row: MassMail) -> tuple[str, str]:
    """Return subject and text as an example person would get them."""
    return placeholders.fill(row.name, EXAMPLE_VALUES), placeholders.fill(row.text, EXAMPLE_VALUES)


def count_recipients(group_id: str | None = None) -> tuple[int, int]:
    """Return how many would get a mail now, and how many of them are suspended."""
    audience = select_audience(group_id).subquery()
    query = select(func.count(), func.count(Account.suspended_at)).join(audience, audience.c.id == Account.id)
    customers, suspended = session.execute(query).one()
    return customers, suspended


def select_audience(group_id: str | None) -> Select[str]:
    """Select the ids of customers, without team members and operators; with a location, those with instances there.
    Suspended customers are among them, because prices and maintenance concern them, too."""
    is_member = exists().where(Member.account_id == Account.id)
    query = select(Account.id).where(Account.operator_role.is_(None), ~is_member)
    if group_id:
        query = query.where(exists().where(Instance.group_id == group_id, Instance.account_id == Account.id))
    return query


def start(row: MassMail) -> MassMail:
    """Fix the recipients and begin to send."""
    ensure_status(row, "draft")
    audience = select_audience(row.group_id).add_columns(literal(row.id))
    session.execute(insert(MassMailRecipient).from_select(["account_id", "mass_mail_id"], audience))
    own = select(func.count()).where(MassMailRecipient.mass_mail_id == row.id)
    row.status, row.started_at, row.total = "sending", clock.now(), session.scalars(own).one()
    session.flush()
    return row


def pause(row: MassMail) -> MassMail:
    """Stop sending. Mails that are in the queue are still sent."""
    ensure_status(row, "sending")
    row.status = "paused"
    session.flush()
    return row


def resume(row: MassMail) -> MassMail:
    ensure_status(row, "paused")
    row.status = "sending"
    session.flush()
    return row


def delete_mass_mail(row: MassMail) -> None:
    """Delete a mail that is not being sent."""
    ensure_status(row, "draft", "paused", "sent")
    session.delete(row)
    session.flush()


def ensure_status(row: MassMail, *statuses: str) -> None:
    """Lock the row. Raise Conflict when it has another status."""
    refresh_with_lock(row)
    if row.status not in statuses:
        raise Conflict(
            message("This is not possible: the status is {status}.", status=row.status), reason="wrong_status"
        )


def queue_batch() -> bool:
    """Hand the next minute's mails of one mass mail to the mail queue. Return whether there was one.

    Recipients are marked in the transaction that records their mails, so a killed worker sends none twice.
    """
    now = clock.now()
    due = (MassMail.last_batch_at.is_(None)) | (MassMail.last_batch_at <= now - BATCH_INTERVAL)
    query = select(MassMail).where(MassMail.status == "sending", due).order_by(MassMail.id).limit(1)
    row = session.scalar(with_lock(query, skip_locked=True, of=MassMail))
    if row is None:
        return False
    unqueued = MassMailRecipient.mass_mail_id == row.id, MassMailRecipient.queued_at.is_(None)
    people = select(Account).join(MassMailRecipient, MassMailRecipient.account_id == Account.id).where(*unqueued)
    accounts = session.scalars(people.order_by(Account.id).limit(row.mails_per_minute)).all()
    for account in accounts:
        values = {"name": account.name, "email": account.email}
        subject, text = placeholders.fill(row.name, values), placeholders.fill(row.text, values)
        mail.send(account.email, MAIL_TEMPLATE, subject=subject, text=text)
    mark = update(MassMailRecipient).where(*unqueued, MassMailRecipient.account_id.in_([row.id for row in accounts]))
    session.execute(mark.values(queued_at=now).execution_options(synchronize_session=False))
    row.queued, row.last_batch_at = row.queued + len(accounts), now
    if not session.scalar(select(exists().where(*unqueued))):
        row.status, row.finished_at = "sent", now
    session.flush()
    return True
