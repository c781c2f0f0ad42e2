"""Tasks for the API and pages: list, cancel, mark as failed, delete."""

from collections.abc import Sequence
from functools import cache

from sqlalchemy import ColumnElement, Select, exists, func, or_, select, update
from sqlalchemy.orm import aliased

from panel.core import clock, jobs, live_changes
from panel.core.db import count_changed, on_commit, session
from panel.core.errors import Conflict, NotFound
from panel.core.messages import message
from panel.models import Account, Task
from panel.models.tasks import OPEN_STATUSES, is_open
from panel.services import audit
from panel.services.access import Access
from panel.services.search_kinds import contains_text, customer_name_search, id_starts_with, is_id, platform_search

MARKED_FAILED_MESSAGE = message("An operator marked it as failed.")


def listing(
    account: Access | Account | None = None,
    *,
    status: str | None = None,
    resource_id: str | None = None,
    hypervisor_id: str | None = None,
    kind: str | None = None,
    search: str | None = None,
) -> Select[Task]:
    """Select tasks, newest first.

    With an account, only those of its resources, and of a deletion only the latest attempt.
    """
    query = select_visible(account).order_by(Task.id.desc())
    if account:
        query = query.where(or_(Task.kind != "volume_delete", ~retried_condition()))
    if status:
        query = query.where(is_open(Task.status) if status == "open" else Task.status == status)
    if resource_id:
        query = query.where(Task.resource_id == resource_id)
    if hypervisor_id:
        query = query.where(Task.hypervisor_id == hypervisor_id)
    if kind:
        query = query.where(Task.kind == kind)
    if search:
        query = query.where(contains_text(Task.resource_name, search))
    return query


def select_visible(account: Access | Account | None) -> Select[Task]:
    return select(Task).where(account.visible_rows(Task)) if account else select(Task)


def select_by_ids(ids: Sequence[str], account: Access | Account | None) -> Select[Task]:
    return select_visible(account).where(Task.id.in_(ids)).order_by(Task.id)


def select_open_of_resources(resource_ids: Sequence[str], account: Access | Account | None) -> Select[Task]:
    """Select the tasks of these resources that have not ended."""
    query = select_visible(account).where(Task.resource_id.in_(resource_ids), is_open(Task.status))
    return query.order_by(Task.id)


@cache
def retried_condition() -> ColumnElement[bool]:
    """Return the condition that a later task does the same to the same resource. Every page has it in two queries, and
    constructing an alias takes longer than running them."""
    later = aliased(Task)
    return exists().where(later.resource_id == Task.resource_id, later.kind == Task.kind, later.id > Task.id)


def list_kinds() -> Sequence[str]:
    """Return the kinds of recorded tasks, for a filter. Looks up each next kind in the index, because `distinct` would
    read all tasks."""
    kinds = select(func.min(Task.kind).label("kind")).cte("kinds", recursive=True)
    following = select(func.min(Task.kind)).where(Task.kind > kinds.c.kind).correlate(kinds).scalar_subquery()
    kinds = kinds.union_all(select(following).where(kinds.c.kind.is_not(None)))
    return session.scalars(select(kinds.c.kind).where(kinds.c.kind.is_not(None)).order_by(kinds.c.kind)).all()


def get(task_id: str, account: Access | Account | None = None, *, resource_id: str | None = None) -> Task:
    query = select_visible(account).where(Task.id == task_id)
    task = session.scalar(query.where(Task.resource_id == resource_id) if resource_id else query)
    if task is None:
        raise NotFound(message("No such task."))
    return task


def cancel(task: Task) -> Task:
    """End a waiting task at once; request a running one to stop at its next step."""
    if not task.cancellable:
        raise Conflict(message("This task can no longer be cancelled."), reason="not_cancellable")
    task.cancel_requested_at = clock.now()
    session.flush()
    on_commit(lambda: jobs.notify(task.id))
    return task


def mark_failed(task: Task) -> Task:
    """Give up a stuck task, even one that can no longer be cancelled.

    Its lease is removed; the next worker runs its rollback steps, updates its resource and ends it as failed.
    """
    now = clock.now()
    statement = update(Task).where(Task.id == task.id, Task.status.in_(OPEN_STATUSES))
    values = {
        "status": "queued",
        "worker": None,
        "cancel_requested_at": now,
        "error": MARKED_FAILED_MESSAGE,
        "updated_at": now,
    }
    if count_changed(statement.values(**values), synchronize_session=False) != 1:
        raise Conflict(message("The task has already finished."), reason="task_ended")
    audit.track(task)
    live_changes.note(task, session)
    on_commit(lambda: jobs.notify(task.id))
    session.refresh(task)
    return task


def forget(task: Task) -> None:
    """Delete the record of an ended task."""
    if task.open:
        raise Conflict(
            message("The task has not finished. Cancel it first, or wait until it has finished."), reason="task_running"
        )
    session.delete(task)


@platform_search("task", permission="admin:tasks:read", position=40)
def select_by_id(text: str) -> Select[str, str, str] | None:
    """Select by the id or its beginning."""
    if not is_id(text):
        return None
    query = select(Task.id, Task.kind, Task.resource_name).where(id_starts_with(Task.id, text))
    return query.order_by(Task.id.desc())


@customer_name_search("task", "tasks", permission="instances.view", position=80)
def select_own_by_id(access: Access, search: str) -> Select[str, str, str] | None:
    """Select the account's tasks by the id or its beginning."""
    if not is_id(search):
        return None
    query = select(Task.id, Task.kind.label("name"), Task.resource_name.label("detail"))
    return query.where(access.visible_rows(Task), id_starts_with(Task.id, search)).order_by(Task.id.desc())
