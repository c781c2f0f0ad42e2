"""Operations on backups as operators see them: the queue, and reconciling those whose outcome is not known."""

from sqlalchemy import Select, func, or_, select

from panel.core.db import lock_row, session
from panel.core.errors import Conflict, NotFound
from panel.core.messages import message
from panel.models import Instance, InstanceBackup, Task
from panel.models.tasks import BACKUP_TRANSFER_TASK_KINDS, OPEN_STATUSES
from panel.services import tasks

OPERATION_KINDS = (*BACKUP_TRANSFER_TASK_KINDS, "backup_delete")
MAX_RECONCILED_PER_RUN = 100
RECORDING_PROGRESS = 95
"""Progress of a backup or restore from which it is done, but not recorded as done."""


def select_queue(instance: Instance | None = None) -> Select[Task]:
    """Select the open backups and restores, of one instance or of all, the oldest first."""
    query = (
        select(Task).where(Task.kind.in_(BACKUP_TRANSFER_TASK_KINDS), Task.status.in_(OPEN_STATUSES)).order_by(Task.id)
    )
    return query.where(Task.resource_id == instance.id) if instance else query


def get_queued(task_id: str) -> Task:
    """Return the task of a backup or restore, also one that has ended."""
    task = session.scalar(select(Task).where(Task.id == task_id, Task.kind.in_(BACKUP_TRANSFER_TASK_KINDS)))
    if task is None:
        raise NotFound(message("No such backup job."))
    return task


def get_operation(operation_id: str) -> Task:
    task = session.scalar(select(Task).where(Task.id == operation_id, Task.kind.in_(OPERATION_KINDS)))
    if task is None:
        raise NotFound(message("No such operation."))
    return task


def revoke(task: Task) -> bool:
    """Revoke an operation that no worker has begun, so that it never runs. Raise `operation_live` while it runs, and
    `remote_done_callback_unconfirmed` when only its record is missing. Return False when it has ended."""
    task = lock_row(Task, task.id) or task
    if not task.open:
        return False
    if task.kind in BACKUP_TRANSFER_TASK_KINDS and task.progress >= RECORDING_PROGRESS:
        raise Conflict(
            message("The operation is done, but not recorded yet. A worker records it within minutes."),
            reason="remote_done_callback_unconfirmed",
            extra={"state": task.status},
        )
    if task.worker or task.status == "running":
        raise Conflict(message("The operation is running."), reason="operation_live", extra={"state": task.status})
    if task.cancel_requested_at is None:
        tasks.cancel(task)
    return True


def find_unconfirmed(task: Task) -> InstanceBackup | None:
    """Return the backup whose deletion by this task ended without a known outcome, or None."""
    return session.scalar(select_unconfirmed().where(InstanceBackup.delete_task_id == task.id))


def select_unconfirmed() -> Select[InstanceBackup]:
    """Select claimed backups whose task has ended or is gone."""
    query = select(InstanceBackup).outerjoin(Task, Task.id == InstanceBackup.delete_task_id)
    is_over = or_(Task.id.is_(None), Task.status.not_in(OPEN_STATUSES))
    return query.where(InstanceBackup.delete_claimed_at.is_not(None), is_over).order_by(InstanceBackup.id)


def count_unconfirmed() -> int:
    return session.scalars(select(func.count()).select_from(select_unconfirmed().order_by(None).subquery())).one()


def describe_state(task: Task) -> str:
    """Return the state of an operation that has ended: `done`, `not_done` or `unknown`."""
    if task.status == "completed":
        return "done"
    if task.kind != "backup_delete":
        return "not_done"
    if find_unconfirmed(task) is not None:
        return "unknown"
    is_left = session.scalar(select(InstanceBackup.id).where(InstanceBackup.id == task.resource_id)) is not None
    return "not_done" if is_left else "done"
