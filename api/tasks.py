"""Tasks: status and progress."""

from marshmallow import fields

from api import kit
from panel.schemas.base import describe
from panel.schemas.tasks import AdminTaskOut, AdminTaskQuery, TaskLogOut, TaskOut, TaskQuery
from panel.services import tasks

user = kit.User("task", __name__, description="Tasks")
admin = kit.Admin("task", __name__, description="Tasks")

LOGS_FIELD = fields.List(fields.Nested(TaskLogOut), **describe("What the task said, oldest first."))
Logs = kit.Schema.from_dict({"logs": LOGS_FIELD}, name="TaskLogs")
LOG_RESPONSE = kit.build_result_schema(logs=LOGS_FIELD)


@user.get(
    "/tasks", op="list", can="instances.view", budget="polls", query=TaskQuery, out=kit.build_page_schema(TaskOut)
)
def listing(query):
    """List tasks, newest first."""
    return kit.paginate(tasks.listing(kit.get_current_access(), **query))


@user.get(
    "/task/<task_id>", op="get", can="instances.view", budget="polls", out=kit.build_wrapped_schema("task", TaskOut)
)
def show(task_id):
    """Show a task."""
    return {"message": None, "task": tasks.get(task_id, kit.get_current_access())}


@user.get("/task/<task_id>/logs", op="logs", can="instances.view", budget="polls", out=LOG_RESPONSE)
def logs(task_id):
    """Show what a task said."""
    return {"message": None, "logs": tasks.get(task_id, kit.get_current_access()).logs}


@user.post("/task/<task_id>/cancel", op="cancel", can="instances.manage", out=kit.build_wrapped_schema("task", TaskOut))
def cancel(task_id):
    """Cancel a task.

    A waiting one ends at once, a running one at its next step. Refused with `not_cancellable` when it is too late.
    """
    return {
        "message": "The task is being cancelled.",
        "task": tasks.cancel(tasks.get(task_id, kit.get_current_access())),
    }


@user.delete("/task/<task_id>", op="delete", can="instances.delete", out=kit.build_result_schema())
def delete(task_id):
    """Remove the record of a task that has ended."""
    tasks.forget(tasks.get(task_id, kit.get_current_access()))
    return {"message": "The record is removed."}


@admin.get(
    "/tasks",
    op="list",
    can="admin:tasks:read",
    budget="polls",
    query=AdminTaskQuery,
    out=kit.build_admin_page_schema(AdminTaskOut),
)
def admin_listing(query):
    """List everybody's tasks, newest first.

    `status`, `kind`, `resource_id`, `hypervisor_id` and `search` narrow the list. `open` means waiting or running.
    """
    return kit.paginate(tasks.listing(**query))


@admin.get("/task/<task_id>", op="get", can="admin:tasks:read", budget="polls", out=AdminTaskOut)
def admin_show(task_id):
    """Show a task.

    Poll it until its status is `completed`, `failed` or `cancelled`. It counts in the budget of polls.
    """
    return tasks.get(task_id)


@admin.get(
    "/task/<task_id>/logs",
    op="logs",
    can="admin:tasks:read",
    budget="polls",
    out=Logs,
)
def admin_logs(task_id):
    """Show what a task said.

    Oldest first. Empty for a task that has not begun.
    """
    return {"logs": tasks.get(task_id).logs}


@admin.post("/task/<task_id>/cancel", op="cancel", can="admin:tasks:write", out=AdminTaskOut)
def admin_cancel(task_id):
    """Cancel a task.

    A waiting one ends at once, a running one at its next step, and what it began is taken back. Refused with 409
    `not_cancellable` when it is too late.
    """
    kit.set_message("The task is being cancelled.")
    return tasks.cancel(tasks.get(task_id))


@admin.delete("/task/<task_id>", op="delete", can="admin:tasks:write")
def admin_delete(task_id):
    """Remove the record of a task that has ended.

    What the task did stays. Refused with 409 `task_running` while the task is open: cancel it or close it first.
    """
    tasks.forget(tasks.get(task_id))
    kit.set_message("The record is removed.")


@admin.post("/task/<task_id>/mark-failed", op="mark_failed", can="admin:tasks:write", out=AdminTaskOut)
def mark_failed(task_id):
    """Close a stuck task.

    Also one that can no longer be cancelled. It is taken from the worker that has it; another one takes back what was
    begun and ends it as `failed`, within seconds while a worker runs. Refused with `task_ended`.
    """
    kit.set_message("The task is being closed.")
    return tasks.mark_failed(tasks.get(task_id))
