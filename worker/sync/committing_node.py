"""The node as tasks and periodic jobs call it: never in a transaction that has changed or locked rows.

The caller commits its changes itself, with `work.step`, `work.undo` or `session.commit()`, so that a handler shows what
is saved when a call fails.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from sqlalchemy import event
from sqlalchemy.orm import ORMExecuteState, Session, SessionTransaction

from panel.core.db import session
from worker import nodes


class UncommittedChanges(Exception):
    """A node was called while the caller had uncommitted changes."""


class CommittingNode:
    """Proxy that ends the transaction before every node call, so that no row locks are held during slow I/O.

    Raises UncommittedChanges when the transaction has changed rows.
    """

    def __init__(self, node: nodes.NodeDriver) -> None:
        self.node = node

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.node, name)

        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            end_transaction(name)
            return method(*args, **kwargs)

        return call


def end_transaction(call: str) -> None:
    if has_changes():
        raise UncommittedChanges(f"Commit before the node's `{call}` is called.")
    session.commit()  # ends the transaction that reading has begun


def has_changes() -> bool:
    """Return whether the transaction has changed rows by the ORM. Statements on the connection are not noticed."""
    is_dirty = any(session.is_modified(row) for row in session.dirty)
    return bool(session.new or session.deleted or is_dirty or session.info.get("has_changes"))


@event.listens_for(Session, "after_flush")
def note_flush(current: Session, _: object) -> None:
    current.info["has_changes"] = True


@event.listens_for(Session, "do_orm_execute")
def note_statement(state: ORMExecuteState) -> None:
    if state.is_insert or state.is_update or state.is_delete:
        state.session.info["has_changes"] = True


@event.listens_for(Session, "after_commit")
def on_commit(current: Session) -> None:
    if not current.in_nested_transaction():
        current.info.pop("has_changes", None)


@event.listens_for(Session, "after_soft_rollback")
def on_rollback(current: Session, transaction: SessionTransaction) -> None:
    if not transaction.nested:
        current.info.pop("has_changes", None)
