"""Announcements and maintenance notices: who sees them, and when."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, exists, func, or_, select
from sqlalchemy.orm import joinedload

from panel.core import clock
from panel.core.db import session, with_lock
from panel.core.errors import Invalid, NotFound
from panel.core.messages import message
from panel.models import Account, Announcement, AnnouncementDismissal, HypervisorGroup, Instance, Member
from panel.services import inbox
from panel.services.access import Access
from panel.services.crud import get_or_404, update_fields

MAX_BANNERS = 3
"""Announcements that a page shows at once."""
BATCH_ACCOUNTS = 500
"""Accounts of one transaction that get an announcement in their inbox."""
MAX_TIME_UNTIL_END = timedelta(days=10 * 365 + 3)
"""Ten years. A later end is a mistake in typing, and customers would see the announcement forever."""
RETENTION = timedelta(days=365)
"""How long announcements that have ended are stored."""


def listing() -> Select[Announcement]:
    """Select all announcements for operators, those that end last first."""
    query = select(Announcement).options(joinedload(Announcement.group), joinedload(Announcement.account))
    return query.order_by(Announcement.ends_at.desc(), Announcement.id.desc())


def get(announcement_id: str) -> Announcement:
    return get_or_404(Announcement, announcement_id, message("No such announcement."))


def create(**values: Any) -> Announcement:
    row = Announcement(**{"starts_at": clock.now()} | resolve_audience(values))
    ensure_valid(row)
    session.add(row)
    session.flush()
    return row


def update(row: Announcement, **changes: Any) -> Announcement:
    """Change the given fields. Messages that are in inboxes stay as they are."""
    with session.no_autoflush:
        for field, value in resolve_audience(changes).items():
            setattr(row, field, value)
        ensure_valid(row)
    return update_fields(row, {})


def delete_announcement(row: Announcement) -> None:
    session.delete(row)
    session.flush()


def resolve_audience(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values, with ids as text. Raise Invalid for an unknown location or customer."""
    values = dict(values)
    for field, model in (("group_id", HypervisorGroup), ("account_id", Account)):
        if values.get(field):
            values[field] = str(values[field])
            sentence = message("No such location.") if field == "group_id" else message("No such account.")
            row = get_or_404(model, values[field], sentence, field)
            if isinstance(row, Account):
                ensure_customer(row)
    return values


def ensure_customer(account: Account) -> None:
    """Raise Invalid for an operator and for a member of a team, of whom nobody would see the announcement."""
    is_member = session.scalar(select(exists().where(Member.account_id == account.id)))
    if account.operator_role or is_member:
        sentence = message("This account is no customer, but an operator or a member of a team.")
        raise Invalid(sentence, account_id=sentence)


def ensure_valid(row: Announcement) -> None:
    if row.ends_at <= row.starts_at:
        sentence = message("The end must be after the beginning.")
        raise Invalid(sentence, ends_at=sentence)
    if row.ends_at > clock.now() + MAX_TIME_UNTIL_END:
        sentence = message("The end can be at most 10 years from now.")
        raise Invalid(sentence, ends_at=sentence)
    if row.group_id and row.account_id:
        sentence = message("Choose a location or a customer, not both.")
        raise Invalid(sentence, account_id=sentence)


def is_shown(now: datetime) -> ColumnElement[bool]:
    is_begun = or_(Announcement.kind == "maintenance", Announcement.starts_at <= now)
    return (Announcement.ends_at > now) & is_begun


def select_shown(access: Access) -> Select[Announcement]:
    """Select what the person sees now and has not dismissed: maintenance first, then the latest."""
    dismissed = exists().where(
        AnnouncementDismissal.announcement_id == Announcement.id,
        AnnouncementDismissal.account_id == access.person_id,
    )
    own_locations = select(Instance.group_id).where(Instance.account_id == access.id)
    query = select(Announcement).where(
        is_shown(clock.now()),
        or_(Announcement.group_id.is_(None), Announcement.group_id.in_(own_locations)),
        or_(Announcement.account_id.is_(None), Announcement.account_id == access.id),
        ~dismissed,
    )
    return query.order_by(Announcement.kind.desc(), Announcement.id.desc())


def list_banners(access: Access) -> list[Announcement]:
    return list(session.scalars(select_shown(access).limit(MAX_BANNERS)))


def dismiss(access: Access, announcement_id: str) -> None:
    """Hide the announcement from the person. A second call finds nothing to hide."""
    row = session.scalar(select_shown(access).where(Announcement.id == announcement_id))
    if row is None:
        raise NotFound(message("No such announcement."))
    session.merge(AnnouncementDismissal(announcement_id=row.id, account_id=access.person_id))
    session.flush()


def send_batch() -> bool:
    """Put the announcement that is due into some inboxes. Return whether there may be more to do."""
    due = select(Announcement).where(Announcement.sent_at.is_(None), is_shown(clock.now()))
    row = session.scalar(with_lock(due.order_by(Announcement.id).limit(1), skip_locked=True, of=Announcement))
    if row is None:
        return False
    people = session.scalars(select_audience(row).limit(BATCH_ACCOUNTS)).all()
    inbox.record([build_report(row, person_id) for person_id in people])
    if people:
        row.sent_up_to = people[-1]
    if len(people) < BATCH_ACCOUNTS:
        row.sent_at = clock.now()
    session.flush()
    return True


def select_audience(row: Announcement) -> Select[str]:
    """Select the ids of the people who have not got it yet, in their order."""
    owner_id = func.coalesce(Member.owner_id, Account.id)
    query = select(Account.id).outerjoin(Member, Member.account_id == Account.id).where(Account.id > row.sent_up_to)
    if row.account_id:
        query = query.where(owner_id == row.account_id)
    if row.group_id:
        query = query.where(exists().where(Instance.group_id == row.group_id, Instance.account_id == owner_id))
    return query.order_by(Account.id)


def build_report(row: Announcement, person_id: str) -> inbox.Report:
    return inbox.Report(
        kind="announcement",
        key=f"announcement:{row.id}:{person_id}",
        account_id=person_id,
        text=message("{title}: {text}", title=row.name, text=row.text),
        severity="warning" if row.is_maintenance else "info",
        is_personal=True,
    )


def purge_expired() -> None:
    session.execute(delete(Announcement).where(Announcement.ends_at < clock.now() - RETENTION))
