"""What a transaction created, changed and removed, recorded while the session flushes."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import event, inspect
from sqlalchemy.orm import ORMExecuteState, Session, SessionTransaction, UOWTransaction

from panel.core.db import Model, session
from panel.models import Account, AuditEntry, Setting, Task

LABEL_ATTRIBUTES = ("display_name", "label", "email", "name", "ip")
"""Attributes that name a row for people; the first one that is set is used."""

IGNORED_COLUMNS = ("created_at", "updated_at")
RANK_CREATED, RANK_CHANGED, RANK_SECONDARY, RANK_BULK = range(4)
"""How likely a row is the object of the request: the lowest rank comes first."""


@dataclass(frozen=True)
class TrackedChange:
    """A row that was created, changed or removed."""

    kind: str
    id: str
    name: str = ""
    account_id: str | None = None
    """The owner."""
    rank: int = RANK_BULK
    did: str = "changed"
    """`made`, `changed` or `removed`."""
    fields: tuple[str, ...] = ()
    """Names of the changed fields, never their values."""
    task: str | None = None
    """The kind of the requested task."""

    @property
    def changes(self) -> dict[str, Any]:
        return {"did": self.did} | {name: value for name in ("fields", "task") if (value := getattr(self, name))}

    def __str__(self) -> str:
        return f"{self.kind.replace('_', ' ')} {self.name or self.id}".strip()


def start_tracking() -> None:
    """Start recording the changes of this session. Workers do not call it: their changes are not audited."""
    session.info["touched"] = {}


def track(row: Model, *, created: bool = False, removed: bool = False, fields: Iterable[str] = ()) -> None:
    """Record a change of the row. Call it explicitly after a bulk UPDATE, with the changed fields: the flush hook
    cannot see them."""
    did = "made" if created else "removed" if removed else "changed"
    if isinstance(row, Task):  # requesting a task is a change of the task's resource
        owner, task_kind = row.account_id, row.kind if created else None
        record_change(
            TrackedChange(row.resource_type, row.resource_id, row.resource_name, owner, RANK_CHANGED, task=task_kind)
        )
        return
    if isinstance(row, Setting):  # many rows, one object
        record_change(TrackedChange("settings", "", rank=RANK_CHANGED, fields=(row.name,)))
        return
    mapper = inspect(type(row))
    ids = mapper.primary_key_from_instance(row)
    name = next((str(getattr(row, attribute)) for attribute in LABEL_ATTRIBUTES if getattr(row, attribute, None)), "")
    rank = RANK_SECONDARY if row.is_audit_part or len(ids) > 1 else RANK_CHANGED if did == "changed" else RANK_CREATED
    record_change(
        TrackedChange(to_snake_case(type(row)), str(ids[0]), name[:255], get_owner_id(row), rank, did, tuple(fields))
    )


def get_owner_id(row: Model) -> str | None:
    if isinstance(row, Account):
        return row.id
    return getattr(row, "owner_id", None) or getattr(row, "account_id", None)


def to_snake_case(kind: type) -> str:
    """Return the class name in snake case: `SshKey` is `ssh_key`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def record_change(change: TrackedChange) -> None:
    changes = session.info.get("touched")
    if changes is None:
        return
    previous = changes.get((change.kind, change.id), change)
    changes[change.kind, change.id] = replace(
        previous,
        name=previous.name or change.name,
        rank=min(previous.rank, change.rank),
        did=change.did if previous.did == "changed" or change.did == "removed" else previous.did,
        fields=tuple(dict.fromkeys(previous.fields + change.fields)),
        task=previous.task or change.task,
    )


@event.listens_for(Session, "after_flush")
def on_flush(current_session: Session, _: UOWTransaction) -> None:
    if "touched" not in current_session.info:
        return
    for row in current_session.new:
        if not isinstance(row, AuditEntry):
            track(row, created=True)
    for row in current_session.deleted:
        track(row, removed=True)
    for row in current_session.dirty:
        if fields := list_changed_fields(row):
            track(row, fields=fields)


def list_changed_fields(row: Model) -> list[str]:
    """Return the names of the changed columns and many-to-many relations of the row. Rows of other relations are
    tracked by themselves."""
    state = inspect(row)
    relations = (attribute.key for attribute in state.mapper.relationships if attribute.secondary is not None)
    columns = (attribute.key for attribute in state.mapper.column_attrs if attribute.key not in IGNORED_COLUMNS)
    return [name for name in (*columns, *relations) if state.attrs[name].history.has_changes()]


@event.listens_for(Session, "do_orm_execute")
def on_execute(execute_state: ORMExecuteState) -> None:
    """Record bulk INSERT, UPDATE and DELETE statements, which change rows without a flush."""
    if "touched" not in execute_state.session.info:
        return
    if execute_state.bind_mapper and (execute_state.is_insert or execute_state.is_update or execute_state.is_delete):
        did = "made" if execute_state.is_insert else "removed" if execute_state.is_delete else "changed"
        record_change(TrackedChange(to_snake_case(execute_state.bind_mapper.class_), "", did=did))


@event.listens_for(Session, "after_transaction_create")
def on_transaction_begin(current_session: Session, transaction: SessionTransaction) -> None:
    if transaction.nested and "touched" in current_session.info:
        current_session.info[transaction] = dict(current_session.info["touched"])


@event.listens_for(Session, "after_soft_rollback")
def on_rollback(current_session: Session, transaction: SessionTransaction) -> None:
    """Drop what was rolled back: everything, or the changes since the savepoint."""
    if "touched" in current_session.info:
        ended, before = current_session.info.pop("ended", (None, {}))
        current_session.info["touched"] = before if ended is transaction else {}


@event.listens_for(Session, "after_transaction_end")
def on_transaction_end(current_session: Session, transaction: SessionTransaction) -> None:
    """Keep the savepoint's state for `on_rollback`: SQLAlchemy calls this hook before that one."""
    if transaction in current_session.info:
        current_session.info["ended"] = transaction, current_session.info.pop(transaction)
