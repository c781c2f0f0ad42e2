"""Delete backups: commit the claims, and wait briefly until workers have deleted them, so that the answer tells what
could not be done."""

from sqlalchemy import func, select

from panel.core.db import session
from panel.core.formatting import format_plural
from panel.models import Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import instance_backups
from panel.services.instance_backups.delete import count_results, describe_problem
from panel.workflows import waiting

DELETION_TIMEOUT_SECONDS = 2
"""How long a request waits for workers. A deletion that has not ended by then stays queued, or running."""


def delete(backup, *, actor):
    """Delete one backup and return the task. Raise `delete_not_dispatched` (422) when nothing was done, or
    `delete_dispatch_unconfirmed` (503) when the outcome is not known."""
    task_id = instance_backups.claim(backup, actor=actor).id
    wait_until_ended([task_id])
    if problem := instance_backups.get_outcome_error(task_id):
        raise problem
    return session.get_one(Task, task_id)


def delete_all(ids, backups, *, actor, is_missing_refused):
    """Delete several backups. Return the answer of the API, its message and its status: 200 when none was refused, else
    that of the first refusal, or 503 if there is one."""
    results = instance_backups.claim_all(ids, backups, actor=actor, is_missing_refused=is_missing_refused)
    wait_until_ended([row["task_id"] for row in results if row["success"]])
    for row in results:
        task_id = row.pop("task_id", None)
        if task_id and (problem := instance_backups.get_outcome_error(task_id)):
            row |= describe_problem(problem)
    answer = {**count_results(results), "results": results}
    sentence = f"Deletion requested for {format_plural(answer['queued'], 'backup')}, {answer['refused']} refused."
    refused = [row["status"] for row in results if not row["success"]]
    return answer, sentence, 503 if 503 in refused else refused[0] if refused else 200


def wait_until_ended(task_ids):
    """Commit, and wait briefly until workers have ended these deletions."""
    is_open = Task.id.in_(task_ids), Task.status.in_(OPEN_STATUSES)
    session.commit()
    if task_ids:
        count = select(func.count()).select_from(Task).where(*is_open)
        waiting.wait_until(lambda: session.scalars(count).one() == 0, DELETION_TIMEOUT_SECONDS)
