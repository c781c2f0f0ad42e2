"""What failed in the background, grouped by kind of job and of failure."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select, text

from panel.core.db import session
from panel.models import Task

QUEUE = "tasks"
FAILED_CONDITION = text("tasks.status = 'failed'")
"""In the words of the partial index."""
UNKNOWN_ERROR_CLASS = "Unknown"
"""Of tasks that failed before the kind of a failure was written down."""


@dataclass
class FailedJobGroup:
    job: str
    exception_class: str
    count: int
    first_failed_at: datetime
    last_failed_at: datetime
    queue: str = QUEUE


def list_groups(since=None):
    """The latest first, counted by the database: no row of a task is read."""
    when, what = Task.finished_at, func.coalesce(Task.error_class, UNKNOWN_ERROR_CLASS)
    last = func.max(when).label("last_failed_at")
    query = (
        select(Task.kind, what, func.count(), func.min(when), last).where(FAILED_CONDITION).group_by(Task.kind, what)
    )
    if since:
        query = query.where(when >= since)
    return [FailedJobGroup(*row) for row in session.execute(query.order_by(last.desc(), Task.kind))]
