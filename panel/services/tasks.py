"""Tasks as people see them."""

from sqlalchemy import exists, or_, select, update
from sqlalchemy.orm import aliased

from panel.core import clock, jobs
from panel.core.db import on_commit, session
from panel.core.errors import Conflict, NotFound
from panel.models import Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import audit

MARKED_FAILED_MESSAGE = "An operator gave it up."


def listing(account=None, *, status=None, resource_id=None, hypervisor_id=None, kind=None, search=None):
    """Newest first. With an account, only the work on its resources, and of a deletion only the latest attempt."""
    query = visible(account).order_by(Task.id.desc())
    if account:
        query = query.where(or_(Task.kind != "volume_delete", ~retried()))
    if status:
        query = query.where(Task.status.in_(OPEN_STATUSES) if status == "open" else Task.status == status)
    if resource_id:
        query = query.where(Task.resource_id == resource_id)
    if hypervisor_id:
        query = query.where(Task.hypervisor_id == hypervisor_id)
    if kind:
        query = query.where(Task.kind == kind)
    if search:
        query = query.where(Task.resource_name.icontains(search, autoescape=True))
    return query


def visible(account):
    return select(Task).where(account.visible_rows(Task)) if account else select(Task)


def retried():
    """The condition that a later task does the same to the same resource."""
    later = aliased(Task)
    return exists().where(later.resource_id == Task.resource_id, later.kind == Task.kind, later.id > Task.id)


def list_kinds():
    """The kinds of tasks that are on record, for a choice."""
    return session.scalars(select(Task.kind).distinct().order_by(Task.kind)).all()


def get(task_id, account=None, *, resource_id=None):
    query = visible(account).where(Task.id == task_id)
    task = session.scalar(query.where(Task.resource_id == resource_id) if resource_id else query)
    if task is None:
        raise NotFound("No such task.")
    return task


def cancel(task):
    """Ends a waiting task at once and asks a running one to stop at its next step."""
    if not task.cancellable:
        raise Conflict("This task can no longer be cancelled.", reason="not_cancellable")
    task.cancel_requested_at = clock.now()
    session.flush()
    on_commit(lambda: jobs.notify(task.id))
    return task


def mark_failed(task):
    """Gives up a task that is stuck, also one that can no longer be cancelled. It is taken from whoever has it; the
    next worker takes back what it has begun, tells its resource, and ends it as failed."""
    now = clock.now()
    still = update(Task).where(Task.id == task.id, Task.status.in_(OPEN_STATUSES))
    given_up = {
        "status": "queued",
        "worker": None,
        "cancel_requested_at": now,
        "error": MARKED_FAILED_MESSAGE,
        "updated_at": now,
    }
    if session.execute(still.values(**given_up), execution_options={"synchronize_session": False}).rowcount != 1:
        raise Conflict("The task has ended already.", reason="task_ended")
    audit.track(task)
    on_commit(lambda: jobs.notify(task.id))
    session.refresh(task)
    return task


def forget(task):
    """Removes the record of ended work."""
    if task.open:
        raise Conflict("The task is not over. Cancel it first or wait until it has ended.", reason="task_running")
    session.delete(task)
