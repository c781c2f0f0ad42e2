"""Delete backups: the row is claimed with the request, a worker deletes the point, and then the row disappears."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import select, update

from panel.core import clock, jobs
from panel.core.db import lock_row, session
from panel.core.errors import Conflict, Invalid, NotFound, Problem, Unavailable
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import InstanceBackup, Task
from panel.services.instance_backups.read import BEING_DELETED_MESSAGE, NO_BACKUP_MESSAGE
from panel.services.state_machine import TASK_RUNNING, make_problem

task_kind("backup_delete", "Backup removal")

ACCEPTED_MESSAGE = message("Deletion of the backup requested.")
NOT_DISPATCHED_MESSAGE = message("The backup was not deleted, because its storage is not available: {error}")
STORAGE_UNAVAILABLE_MESSAGE = message("The backup was not deleted, because its storage is not available.")
UNCONFIRMED_MESSAGE = message("It is not known whether the backup was deleted. It stays marked for deletion.")


def claim(backup: InstanceBackup, *, actor: str) -> Task:
    """Claim the backup for its deletion and enqueue that. Raise when it is protected, claimed or not complete yet."""
    backup = lock_backup(backup)
    if backup.is_claimed:
        raise Conflict(BEING_DELETED_MESSAGE, reason="backup_being_deleted")
    if backup.protected:
        raise Conflict(message("The backup is protected. Remove the protection first."), reason="backup_not_deletable")
    if backup.status == "creating":
        raise make_problem(TASK_RUNNING)
    if backup.destination.status == "unavailable":
        raise Invalid(STORAGE_UNAVAILABLE_MESSAGE, reason="delete_not_dispatched")
    task = jobs.enqueue("backup_delete", "instance_backup", backup, lock="light", actor=actor)
    backup.delete_claimed_at, backup.delete_dispatched_at = clock.now(), None
    backup.delete_task_id = task.id
    session.flush()
    return task


def lock_backup(backup: InstanceBackup) -> InstanceBackup:
    """Return the row, locked and read again, so that only one request claims it."""
    locked = lock_row(InstanceBackup, backup.id)
    if locked is None:
        raise NotFound(NO_BACKUP_MESSAGE, reason="backup_not_found")
    return locked


def claim_all(
    ids: Iterable[str], backups: Mapping[str, InstanceBackup], *, actor: str, is_missing_refused: bool
) -> list[dict[str, Any]]:
    """Claim these backups, each independently, and return a result row for each id, without duplicates. An id that is
    not in `backups` is refused or left out. Accepted rows have the `task_id`, refused ones the reason."""
    results = []
    for backup_id in dict.fromkeys(ids):
        if backup_id in backups:
            results.append(claim_one(backups[backup_id], actor))
        elif is_missing_refused:
            problem = NotFound(NO_BACKUP_MESSAGE, reason="backup_not_found")
            results.append({"id": backup_id, **describe_problem(problem)})
    return results


def claim_one(backup: InstanceBackup, actor: str) -> dict[str, Any]:
    backup_id = backup.id
    try:
        with session.begin_nested():
            task = claim(backup, actor=actor)
    except Problem as problem:
        return {"id": backup_id, **describe_problem(problem)}
    return {"id": backup_id, "status": 200, "success": True, "message": ACCEPTED_MESSAGE, "task_id": task.id}


def describe_problem(problem: Problem) -> dict[str, Any]:
    reason = {"reason": problem.reason} if problem.reason else {}
    return {"status": problem.status, "success": False, "message": problem.message, **reason}


def count_results(results: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many are `queued` and how many `refused`."""
    counts = Counter("queued" if row["success"] else "refused" for row in results)
    return {"queued": counts["queued"], "refused": counts["refused"]}


def get_outcome_error(task_id: str) -> Problem | None:
    """Return why a deletion failed, as far as it is known now, or None. Call it after the task may have run."""
    task = session.get(Task, task_id, populate_existing=True)
    if task is None or task.open or task.status == "completed":
        return None
    # Only columns: the session still has the row as it was claimed, and a worker has changed it since.
    claimed_at = select(InstanceBackup.delete_claimed_at).where(InstanceBackup.delete_task_id == task_id)
    if session.scalar(claimed_at) is not None:
        return Unavailable(UNCONFIRMED_MESSAGE, reason="delete_dispatch_unconfirmed")
    return Invalid(NOT_DISPATCHED_MESSAGE.format(error=task.error), reason="delete_not_dispatched")


def confirm_deletion(backup: InstanceBackup) -> None:
    """Delete the row: the destination does not have the point any more. Those that reused its content continue with
    its parent."""
    children = update(InstanceBackup).where(InstanceBackup.parent_backup_id == backup.id)
    session.execute(children.values(parent_backup_id=backup.parent_backup_id))
    session.delete(backup)


def release_claim(backup: InstanceBackup) -> None:
    """End the claim: the destination still has the point."""
    backup.delete_claimed_at = backup.delete_dispatched_at = None
