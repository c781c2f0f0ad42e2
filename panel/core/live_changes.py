"""Changes of rows that open pages show. They are noted while a session flushes, and published over Redis after the
commit; the console server sends them to the browsers of those who may see the row (consoles/live_updates.py).

A message says which row has changed, and nothing of what is in it. A lost message only delays a page until its next
poll.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Any, NamedTuple, Self

import orjson
import structlog
from redis import Redis, RedisError
from sqlalchemy import event, inspect
from sqlalchemy.orm import Session, UOWTransaction

from panel.core import context
from panel.core.db import Base

log = structlog.get_logger()

MAX_CHANGES_PER_MESSAGE = 500
"""Above this number, a message names only the tables of each account."""

UNSHOWN_COLUMNS = {
    *("updated_at", "heartbeat_at", "seen_at", "power_reported_at", "agent_checked_at", "agent_seen_at", "checked_at"),
    *("worker", "attempt", "rollback_steps", "rollback_pending", "secret"),
}
"""Columns that workers write again and again, and that no page has to show at once."""


class Change(NamedTuple):
    account_id: str | None
    """The owner; None for rows of the platform, which only operators may see."""
    table: str
    id: str = ""
    """Empty: many rows of the table."""
    related_id: str = ""
    """The resource that the row is about, such as the instance of a task."""

    @classmethod
    def of_row(cls, row: Any) -> Self:
        related_id = getattr(row, "resource_id", None) or getattr(row, "instance_id", None)
        return cls(getattr(row, "account_id", None), row.__tablename__, row.id, related_id or "")


class PendingChanges:
    """The changes of one transaction. Called after its commit."""

    def __init__(self) -> None:
        self.changes: dict[Change, None] = {}

    def __call__(self) -> None:
        publish(self.changes)


def note(row: Any, session: Any) -> None:
    """Publish a change of the row after the session's transaction commits. To be called after statements that the ORM
    does not see; changes of objects are noted by themselves."""
    note_change(Change.of_row(row), session)


def note_change(change: Change, session: Any) -> None:
    """Publish a change after the session's transaction commits."""
    callbacks = session.info.setdefault("on_commit", [])
    pending = next((call for call in callbacks if isinstance(call, PendingChanges)), None)
    if pending is None:
        callbacks.append(pending := PendingChanges())
    pending.changes[change] = None


@event.listens_for(Session, "after_flush")
def on_flush(session: Session, _: UOWTransaction) -> None:
    for row in chain(session.new, session.deleted):
        if row.live_permissions:
            note(row, session)
    for row in session.dirty:
        if row.live_permissions and has_shown_change(row):
            note(row, session)


def has_shown_change(row: Base) -> bool:
    previous_values = inspect(row).committed_state
    return any(
        name not in UNSHOWN_COLUMNS and value != row.__dict__.get(name) for name, value in previous_values.items()
    )


def publish(changes: Iterable[Change]) -> None:
    """Send the changes to the console servers. A Redis that does not answer delays nobody: it is not asked again for
    some seconds."""
    process = context.current()
    if not process.can_notify or process.is_redis_paused():
        return
    listed = list(changes)
    if len(listed) > MAX_CHANGES_PER_MESSAGE:
        listed = list(dict.fromkeys(Change(change.account_id, change.table) for change in listed))
    try:
        process.redis.publish(get_channel(process.redis), orjson.dumps([list(change) for change in listed]))
    except (RedisError, OSError) as error:
        process.pause_redis()
        log.warning("changes_not_published", error=str(error))


def parse(message: bytes) -> list[Change]:
    return [Change(*values) for values in orjson.loads(message)]


def get_channel(redis: Redis) -> str:
    """Return the name of the channel. It has the database's number, because databases share channels."""
    return f"panel:changes:{redis.connection_pool.connection_kwargs.get('db') or 0}"
