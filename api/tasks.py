"""Tasks: status and progress."""

from marshmallow import fields

from api import kit
from panel.schemas.base import describe
from panel.schemas.tasks import AdminTaskOut, AdminTaskQuery, TaskLogOut, TaskOut, TaskQuery
from panel.services import tasks

user = kit.User("task", __name__, description="Tasks")
admin = kit.Admin("task", __name__, description="Tasks")

LOGS_FIELD = fields.List(fields.Nested(TaskLogOut), **describe("Log lines, oldest first."))
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
    """Get a task."""
    return {"message": None, "task": tasks.get(task_id, kit.get_current_access())}


@user.get("/task/<task_id>/logs", op="logs", can="instances.view", budget="polls", out=LOG_RESPONSE)
def logs(task_id):
    """Get the log of a task."""
    return {"message": None, "logs": tasks.get(task_id, kit.get_current_access()).logs}


@user.post("/task/<task_id>/cancel", op="cancel", can="instances.manage", out=kit.build_wrapped_schema("task", TaskOut))
def cancel(task_id):
    """Cancel a task.

    A queued task ends immediately, a running one at its next step. Returns 409 `not_cancellable` if it is too late.
    """
    return {
        "message": "Cancellation requested.",
        "task": tasks.cancel(tasks.get(task_id, kit.get_current_access())),
    }


@user.delete("/task/<task_id>", op="delete", can="instances.delete", out=kit.build_result_schema())
def delete(task_id):
    """Delete the record of a task that has ended."""
    tasks.forget(tasks.get(task_id, kit.get_current_access()))
    return {"message": "Task record deleted."}


@admin.get(
    "/tasks",
    op="list",
    can="admin:tasks:read",
    budget="polls",
    query=AdminTaskQuery,
    out=kit.build_admin_page_schema(AdminTaskOut),
)
def admin_listing(query):
    """List the tasks of all users, newest first.

    Filter with `status`, `kind`, `resource_id`, `hypervisor_id` and `search`. The status `open` matches queued and
    running tasks.
    """
    return kit.paginate(tasks.listing(**query))


@admin.get("/task/<task_id>", op="get", can="admin:tasks:read", budget="polls", out=AdminTaskOut)
def admin_show(task_id):
    """Get a task.

    Poll it until its status is `completed`, `failed` or `cancelled`. Counts against the rate limit for polls.
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
    """Get the log of a task, oldest line first.

    Empty for a task that has not started.
    """
    return {"logs": tasks.get(task_id).logs}


@admin.post("/task/<task_id>/cancel", op="cancel", can="admin:tasks:write", out=AdminTaskOut)
def admin_cancel(task_id):
    """Cancel a task.

    A queued task ends immediately. A running one stops at its next step and is rolled back. Returns 409
    `not_cancellable` if it is too late.
    """
    kit.set_message("Cancellation requested.")
    return tasks.cancel(tasks.get(task_id))


@admin.delete("/task/<task_id>", op="delete", can="admin:tasks:write")
def admin_delete(task_id):
    """Delete the record of a task that has ended.

    The result of the task is not affected. Returns 409 `task_running` while the task is open: cancel it or mark it as
    failed first.
    """
    tasks.forget(tasks.get(task_id))
    kit.set_message("Task record deleted.")


@admin.post("/task/<task_id>/mark-failed", op="mark_failed", can="admin:tasks:write", out=AdminTaskOut)
def mark_failed(task_id):
    """Mark a stuck task as failed.

    Also works for tasks that can no longer be cancelled. The task is taken from its worker; another worker rolls it
    back and ends it as `failed`, usually within seconds. Returns 409 `task_ended` if the task has ended.
    """
    kit.set_message("The task will end as failed at its next step.")
    return tasks.mark_failed(tasks.get(task_id))
