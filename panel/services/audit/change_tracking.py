"""What a transaction made, changed and removed, gathered while the session writes it."""

import re
from dataclasses import dataclass, replace

from sqlalchemy import event, inspect
from sqlalchemy.orm import Session

from panel.core.db import session
from panel.models import Account, AuditEntry, Setting, Task

NAMES = ("display_name", "label", "email", "name", "ip")
"""The attribute by which people know a row: the first that it has."""

PARTS = {
    "addresses",
    "console_sessions",
    "devices",
    "disks",
    "docker_deployments",
    "docker_engines",
    "events",
    "grants",
    "hypervisor_group_grants",
    "image_copies",
    "interfaces",
    "links",
    "mails",
    "recovery_codes",
    "rentals",
    "security_group_members",
    "sessions",
    "task_logs",
    "traffic",
    "usage_hours",
    "usage_months",
}
"""Parts of other things, and what tells of them: the object of an entry only if nothing else was touched."""

KEPT = ("created_at", "updated_at")
MADE, CHANGED, PART, BULK = range(4)
"""How near a row is to what the request was about."""


@dataclass(frozen=True)
class Touched:
    """A row that was made, changed or removed."""

    kind: str
    id: str
    name: str = ""
    account_id: str | None = None
    """Whose it is."""
    rank: int = BULK
    did: str = "changed"
    """`made`, `changed` or `removed`."""
    fields: tuple[str, ...] = ()
    """The names of the fields that changed, never what they hold."""
    task: str | None = None
    """The kind of work that was asked for."""

    @property
    def changes(self):
        return {"did": self.did} | {name: found for name in ("fields", "task") if (found := getattr(self, name))}

    def __str__(self):
        return f"{self.kind.replace('_', ' ')} {self.name or self.id}".strip()


def follow():
    """Begins to gather what this session does. Without it nothing is: workers are not audited."""
    session.info["touched"] = {}


def touch(row, *, made=False, removed=False, fields=()):
    """Notes a row. Who writes past the session's rows may say with it what exactly was written."""
    did = "made" if made else "removed" if removed else "changed"
    if isinstance(row, Task):  # who asks for work does something to its resource
        owner, asked = row.account_id, row.kind if made else None
        note(Touched(row.resource_type, row.resource_id, row.resource_name, owner, CHANGED, task=asked))
        return
    if isinstance(row, Setting):  # many rows, but one object
        note(Touched("settings", "", rank=CHANGED, fields=(row.name,)))
        return
    mapper = inspect(type(row))
    ids = mapper.primary_key_from_instance(row)
    name = next((str(getattr(row, each)) for each in NAMES if getattr(row, each, None)), "")
    rank = PART if mapper.local_table.name in PARTS or len(ids) > 1 else CHANGED if did == "changed" else MADE
    note(Touched(word(type(row)), str(ids[0]), name[:255], owner_of(row), rank, did, tuple(fields)))


def owner_of(row):
    if isinstance(row, Account):
        return row.id
    return getattr(row, "owner_id", None) or getattr(row, "account_id", None)


def word(kind):
    """A class as people write it: `SshKey` is `ssh_key`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def note(found):
    seen = session.info.get("touched")
    if seen is None:
        return
    known = seen.get((found.kind, found.id), found)
    seen[found.kind, found.id] = replace(
        known,
        name=known.name or found.name,
        rank=min(known.rank, found.rank),
        did=found.did if known.did == "changed" or found.did == "removed" else known.did,
        fields=tuple(dict.fromkeys(known.fields + found.fields)),
        task=known.task or found.task,
    )


@event.listens_for(Session, "after_flush")
def flushed(current, _):
    if "touched" not in current.info:
        return
    for row in current.new:
        if not isinstance(row, AuditEntry):
            touch(row, made=True)
    for row in current.deleted:
        touch(row, removed=True)
    for row in current.dirty:
        if fields := changed_fields(row):
            touch(row, fields=fields)


def changed_fields(row):
    """The names of what is new in the row itself, or in what it is linked to. Rows that hang on it speak for
    themselves."""
    state = inspect(row)
    links = (each.key for each in state.mapper.relationships if each.secondary is not None)
    columns = (each.key for each in state.mapper.column_attrs if each.key not in KEPT)
    return [name for name in (*columns, *links) if state.attrs[name].history.has_changes()]


@event.listens_for(Session, "do_orm_execute")
def executed(asked):
    """Statements that write past the rows of the session."""
    if "touched" not in asked.session.info:
        return
    if asked.bind_mapper and (asked.is_insert or asked.is_update or asked.is_delete):
        did = "made" if asked.is_insert else "removed" if asked.is_delete else "changed"
        note(Touched(word(asked.bind_mapper.class_), "", did=did))


@event.listens_for(Session, "after_transaction_create")
def began(current, transaction):
    if transaction.nested and "touched" in current.info:
        current.info[transaction] = dict(current.info["touched"])


@event.listens_for(Session, "after_soft_rollback")
def taken_back(current, transaction):
    """What is rolled back did not happen: all of it, or what came after the savepoint."""
    if "touched" in current.info:
        left, before = current.info.pop("ended", (None, {}))
        current.info["touched"] = before if left is transaction else {}


@event.listens_for(Session, "after_transaction_end")
def ended(current, transaction):
    """SQLAlchemy tells of the end before it tells that it was a rollback."""
    if transaction in current.info:
        current.info["ended"] = transaction, current.info.pop(transaction)
