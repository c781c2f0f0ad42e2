"""A person's messages: which it may see, which are read, and how long they are stored."""

from collections.abc import Collection, Sequence
from datetime import timedelta

from sqlalchemy import ColumnElement, Select, and_, delete, func, or_, select, update

from panel.core import clock
from panel.core.db import count_changed, session
from panel.core.errors import Invalid, NotFound
from panel.core.messages import message
from panel.models import InboxCause, InboxMessage, Instance, Volume
from panel.services.access import Access
from panel.services.inbox.kinds import KINDS
from panel.services.inbox.recording import note_changed_inbox

MAX_COUNTED_UNREAD = 100
"""Unread messages up to which they are counted for the badge."""
NEW_MESSAGE_AGE, MAX_NEW_MESSAGES = timedelta(minutes=10), 50
"""Which messages, and how many of them, browsers learn of. They show a few as notifications, and the number of the
others (notifications.js)."""
MESSAGE_RETENTION = timedelta(days=90)
CAUSE_RETENTION = timedelta(days=400)
"""How long causes are stored. Longer than any of them lasts, so that none is reported twice."""


def is_visible(access: Access) -> ColumnElement[bool]:
    """Return the condition for messages to the person about itself, or about what it may see now."""
    conditions = [InboxMessage.owner_id == access.id]
    if access.permissions is not None:
        kinds = [kind for kind, facts in KINDS.items() if facts.permission in access.permissions]
        conditions.append(InboxMessage.kind.in_(kinds))
    if access.reach != "all":
        conditions.append(is_within_reach(access))
    return and_(InboxMessage.account_id == access.person_id, or_(InboxMessage.owner_id.is_(None), and_(*conditions)))


def is_within_reach(access: Access) -> ColumnElement[bool]:
    return or_(
        InboxMessage.resource_id.is_(None),
        InboxMessage.resource_id.in_(access.select_granted_ids()),
        InboxMessage.resource_id.in_(select(Instance.id).where(access.visible_rows(Instance))),
        InboxMessage.resource_id.in_(select(Volume.id).where(access.visible_rows(Volume))),
    )


def listing(access: Access, *, kind: str | None = None, unread: bool | None = None) -> Select[InboxMessage]:
    """Select the person's messages, newest first."""
    query = select(InboxMessage).where(is_visible(access)).order_by(InboxMessage.id.desc())
    if kind:
        query = query.where(InboxMessage.kind == kind)
    if unread is not None:
        query = query.where(InboxMessage.read_at.is_(None) if unread else InboxMessage.read_at.is_not(None))
    return query


def list_newest(access: Access) -> Sequence[InboxMessage]:
    """Return the unread messages of the last minutes, oldest first, for notifications of browsers."""
    recent = InboxMessage.created_at > clock.now() - NEW_MESSAGE_AGE
    newest = session.scalars(listing(access, unread=True).where(recent).limit(MAX_NEW_MESSAGES)).all()
    return newest[::-1]


def get(message_id: str, access: Access) -> InboxMessage:
    row = session.scalar(listing(access).where(InboxMessage.id == message_id))
    if row is None:
        raise NotFound(message("No such notification."))
    return row


def count_unread(access: Access) -> int:
    """Return the number of unread messages, at most `MAX_COUNTED_UNREAD`. One query, which an index serves."""
    unread = select(InboxMessage.id).where(is_visible(access), InboxMessage.read_at.is_(None))
    limited = unread.limit(MAX_COUNTED_UNREAD).subquery()
    return session.scalars(select(func.count()).select_from(limited)).one()


def mark_read(access: Access, message_ids: Collection[str]) -> int:
    """Mark these messages as read. Return how many were unread."""
    ids = {str(message_id) for message_id in message_ids}
    rows = session.scalars(listing(access).where(InboxMessage.id.in_(ids))).all()
    if len(rows) < len(ids):
        sentence = message("No such notification.")
        raise Invalid(sentence, ids=sentence)
    return set_read(InboxMessage.id.in_(ids), access)


def mark_all_read(access: Access) -> int:
    return set_read(is_visible(access), access)


def set_read(condition: ColumnElement[bool], access: Access) -> int:
    own_unread = InboxMessage.account_id == access.person_id, InboxMessage.read_at.is_(None)
    statement = update(InboxMessage).where(condition, *own_unread).values(read_at=clock.now())
    count = count_changed(statement, synchronize_session=False)
    if count:
        note_changed_inbox(access.person_id)
    return count


def purge_expired() -> None:
    now = clock.now()
    session.execute(delete(InboxMessage).where(InboxMessage.created_at < now - MESSAGE_RETENTION))
    session.execute(delete(InboxCause).where(InboxCause.created_at < now - CAUSE_RETENTION))
