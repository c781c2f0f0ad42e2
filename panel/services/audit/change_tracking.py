"""What a transaction made, changed and removed, gathered while the session writes it."""

import re
from dataclasses import dataclass, replace

from sqlalchemy import event, inspect
from sqlalchemy.orm import Session

from panel.core.db import session
from panel.models import Account, AuditEntry, Setting, Task

LABEL_ATTRIBUTES = ("display_name", "label", "email", "name", "ip")
"""The attribute by which people know a row: the first that it has."""

SECONDARY_TABLES = {
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

IGNORED_COLUMNS = ("created_at", "updated_at")
RANK_CREATED, RANK_CHANGED, RANK_SECONDARY, RANK_BULK = range(4)
"""How near a row is to what the request was about."""


@dataclass(frozen=True)
class TrackedChange:
    """A row that was made, changed or removed."""

    kind: str
    id: str
    name: str = ""
    account_id: str | None = None
    """Whose it is."""
    rank: int = RANK_BULK
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


def start_tracking():
    """Begins to gather what this session does. Without it nothing is: workers are not audited."""
    session.info["touched"] = {}


def track(row, *, created=False, removed=False, fields=()):
    """Notes a row. Who writes past the session's rows may say with it what exactly was written."""
    did = "made" if created else "removed" if removed else "changed"
    if isinstance(row, Task):  # who asks for work does something to its resource
        owner, asked = row.account_id, row.kind if created else None
        record_change(
            TrackedChange(row.resource_type, row.resource_id, row.resource_name, owner, RANK_CHANGED, task=asked)
        )
        return
    if isinstance(row, Setting):  # many rows, but one object
        record_change(TrackedChange("settings", "", rank=RANK_CHANGED, fields=(row.name,)))
        return
    mapper = inspect(type(row))
    ids = mapper.primary_key_from_instance(row)
    name = next((str(getattr(row, each)) for each in LABEL_ATTRIBUTES if getattr(row, each, None)), "")
    rank = (
        RANK_SECONDARY
        if mapper.local_table.name in SECONDARY_TABLES or len(ids) > 1
        else RANK_CHANGED
        if did == "changed"
        else RANK_CREATED
    )
    record_change(
        TrackedChange(snake_case_name(type(row)), str(ids[0]), name[:255], get_owner_id(row), rank, did, tuple(fields))
    )


def get_owner_id(row):
    if isinstance(row, Account):
        return row.id
    return getattr(row, "owner_id", None) or getattr(row, "account_id", None)


def snake_case_name(kind):
    """A class as people write it: `SshKey` is `ssh_key`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def record_change(change):
    seen = session.info.get("touched")
    if seen is None:
        return
    known = seen.get((change.kind, change.id), change)
    seen[change.kind, change.id] = replace(
        known,
        name=known.name or change.name,
        rank=min(known.rank, change.rank),
        did=change.did if known.did == "changed" or change.did == "removed" else known.did,
        fields=tuple(dict.fromkeys(known.fields + change.fields)),
        task=known.task or change.task,
    )


@event.listens_for(Session, "after_flush")
def on_flush(current, _):
    if "touched" not in current.info:
        return
    for row in current.new:
        if not isinstance(row, AuditEntry):
            track(row, created=True)
    for row in current.deleted:
        track(row, removed=True)
    for row in current.dirty:
        if fields := list_changed_fields(row):
            track(row, fields=fields)


def list_changed_fields(row):
    """The names of what is new in the row itself, or in what it is linked to. Rows that hang on it speak for
    themselves."""
    state = inspect(row)
    links = (each.key for each in state.mapper.relationships if each.secondary is not None)
    columns = (each.key for each in state.mapper.column_attrs if each.key not in IGNORED_COLUMNS)
    return [name for name in (*columns, *links) if state.attrs[name].history.has_changes()]


@event.listens_for(Session, "do_orm_execute")
def on_execute(execute_state):
    """Statements that write past the rows of the session."""
    if "touched" not in execute_state.session.info:
        return
    if execute_state.bind_mapper and (execute_state.is_insert or execute_state.is_update or execute_state.is_delete):
        did = "made" if execute_state.is_insert else "removed" if execute_state.is_delete else "changed"
        record_change(TrackedChange(snake_case_name(execute_state.bind_mapper.class_), "", did=did))


@event.listens_for(Session, "after_transaction_create")
def on_transaction_begin(current, transaction):
    if transaction.nested and "touched" in current.info:
        current.info[transaction] = dict(current.info["touched"])


@event.listens_for(Session, "after_soft_rollback")
def on_rollback(current, transaction):
    """What is rolled back did not happen: all of it, or what came after the savepoint."""
    if "touched" in current.info:
        left, before = current.info.pop("ended", (None, {}))
        current.info["touched"] = before if left is transaction else {}


@event.listens_for(Session, "after_transaction_end")
def on_transaction_end(current, transaction):
    """SQLAlchemy tells of the end before it tells that it was a rollback."""
    if transaction in current.info:
        current.info["ended"] = transaction, current.info.pop(transaction)
