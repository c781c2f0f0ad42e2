"""Failed tasks, grouped by task kind and error class."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, func, select, text

from panel.core.db import session
from panel.models import Task

QUEUE_NAME = "tasks"
FAILED_CONDITION = text("tasks.status = 'failed'")
"""Written like the condition of the partial index."""
UNKNOWN_ERROR_CLASS = "Unknown"
"""The class of tasks that failed before the class was recorded."""


@dataclass
class FailedJobGroup:
    job: str
    exception_class: str
    count: int
    first_failed_at: datetime
    last_failed_at: datetime
    queue: str = QUEUE_NAME


def list_groups(since: datetime | None = None) -> list[FailedJobGroup]:
    """Return the groups, latest failure first. The database counts; no task rows are read."""
    finished_at, error_class = Task.finished_at, func.coalesce(Task.error_class, UNKNOWN_ERROR_CLASS)
    last_failed_at = func.max(finished_at).label("last_failed_at")
    query: Select = (  # a failed task has a time, though the column may be empty
        select(Task.kind, error_class, func.count(), func.min(finished_at), last_failed_at)
        .where(FAILED_CONDITION)
        .group_by(Task.kind, error_class)
    )
    if since:
        query = query.where(finished_at >= since)
    return [FailedJobGroup(*row) for row in session.execute(query.order_by(last_failed_at.desc(), Task.kind))]
