"""Failed tasks of the overview tests."""

from panel.core import clock
from panel.core.db import generate_id, session
from panel.models import Task


def add_failed_task(cast, kind, error, error_class, account=True, resource_type="instance"):
    task = Task(id=generate_id(), kind=kind, resource_type=resource_type, resource_id=generate_id(), resource_name="x")
    task.account_id, task.lock, task.actor, task.arguments = (account and cast.owner.id) or None, "light", "t", {}
    task.status, task.error, task.error_class, task.finished_at = "failed", error, error_class, clock.now()
    session.add(task)
    session.commit()
