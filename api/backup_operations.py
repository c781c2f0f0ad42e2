"""The queue of backups and restores, and reconciling operations on backups."""

from marshmallow import fields, validate

from api import kit
from api.instances import user as instance_user
from panel.schemas.base import Out, describe
from panel.schemas.instance_backups import EXAMPLE_ID
from panel.schemas.tasks import AdminTaskOut, TaskLogOut, TaskOut
from panel.services import backup_operations, instances, tasks
from panel.web.audit_view import audit_label
from panel.workflows import backup_reconciliation

admin = kit.Admin("backup_operation", __name__, description="Backup operations")

JOB_PATH = "/instance/backup-queue/job/<task_id>"
LOGS_RESPONSE = kit.Schema.from_dict(
    {"logs": fields.List(fields.Nested(TaskLogOut), **describe("Log lines, oldest first."))}, name="BackupJobLogs"
)


class ReconciledOperation(Out):
    kind = fields.String(
        validate=validate.OneOf(backup_operations.OPERATION_KINDS), **describe("Kind of the task.", "backup_delete")
    )
    operation_id = fields.String(**describe("Id of the task.", EXAMPLE_ID))
    state = fields.String(
        validate=validate.OneOf(("revoked", "done", "not_done", "unknown")),
        **describe("`revoked`: it never runs. `unknown`: the destination does not answer.", "done"),
    )


@instance_user.get(
    "/instance/<instance_id>/backup-queue",
    op="backup_queue",
    can="instances.view",
    query=kit.PageQuery,
    out=kit.build_page_schema(TaskOut),
)
def listing(instance_id):
    """List the queued and running backups and restores of an instance, oldest first."""
    return kit.paginate(backup_operations.select_queue(instances.get(instance_id, kit.get_current_access())))


@admin.get(
    "/instance/backup-queue/jobs",
    op="jobs",
    can="admin:instances:read",
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(AdminTaskOut),
)
def admin_listing():
    """List the queued and running backups and restores of all instances.

    The oldest are first.
    """
    return kit.paginate(backup_operations.select_queue())


@admin.delete(JOB_PATH, op="cancel_job", can="admin:instances:write")
@audit_label("Cancel backup job")
def cancel(task_id):
    """Cancel a queued or running backup or restore.

    A queued one ends immediately, a running one at its next step. Returns 409 `not_cancellable` if it is too late.
    """
    tasks.cancel(backup_operations.get_queued(task_id))
    kit.set_message("Cancellation requested.")


@admin.get(f"{JOB_PATH}/logs", op="job_logs", can="admin:instances:read", out=LOGS_RESPONSE)
def logs(task_id):
    """Get the log of a backup or restore.

    Also of one that has ended.
    """
    return {"logs": backup_operations.get_queued(task_id).logs}


@admin.post(
    "/backup-dispatch/<operation_id>/reconcile",
    op="reconcile",
    can="admin:instances:write",
    out=ReconciledOperation,
)
@audit_label("Reconcile backup operation")
def reconcile(operation_id):
    """Find out what became of a backup, restore or deletion.

    An operation that no worker has begun is revoked: it never runs. After a deletion with an unknown outcome a worker
    asks the destination; then the backup disappears, or can be deleted again. Returns 409 with `data.state`:
    `operation_live` while the operation is running, `remote_done_callback_unconfirmed` when it is done, but not
    recorded yet.
    """
    task = backup_operations.get_operation(operation_id)
    answer = {"kind": task.kind, "operation_id": task.id}
    return answer | {"state": backup_reconciliation.reconcile(task)}
