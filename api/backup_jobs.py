"""Backup plans, and backup jobs of hypervisor groups, for operators."""

from api import kit
from panel.schemas.backup_jobs import (
    BackupJobIn,
    BackupJobOut,
    BackupJobPatch,
    BackupPlanIn,
    BackupPlanOut,
    BackupPlanPatch,
)
from panel.services import backup_policies, hypervisors

jobs = kit.Admin("backup_job", __name__, description="Backup jobs")
plans = kit.Admin("backup_plan", __name__, description="Backup plans")
admin = (jobs, plans)

READ_PERMISSION, WRITE_PERMISSION = "admin:hypervisors:read", "admin:hypervisors:write"
PLAN_READ_PERMISSION, PLAN_WRITE_PERMISSION = "admin:instances:read", "admin:instances:write"
JOBS_PATH = "/hypervisor-group/<group_id>/backup-jobs"
PLAN_PATH = "/hypervisor/backup-plan/<plan_id>"


def get_job(group_id, job_id):
    return backup_policies.get_job(hypervisors.get_group(group_id), job_id)


@jobs.get(JOBS_PATH, op="list", can=READ_PERMISSION, query=kit.PageQuery, out=kit.build_admin_page_schema(BackupJobOut))
def list_jobs(group_id):
    """List the backup jobs of a hypervisor group.

    Sorted by name. Returns 404 if the group does not exist.
    """
    return kit.paginate(backup_policies.select_jobs(hypervisors.get_group(group_id)))


@jobs.post(JOBS_PATH, op="create", can=WRITE_PERMISSION, body=BackupJobIn, out=BackupJobOut)
def create_job(body, group_id):
    """Create a backup job of a hypervisor group.

    It backs up all instances of the group, or of one of its hypervisors, also those that are created later. It deletes
    those of its backups that it does not retain, but never protected ones. With `plan_id` the job follows a backup
    plan; without, `keep` is required. An instance that a policy or another job backs up within an hour of the run is
    left out. Returns 422 under the field for an unknown plan, destination or hypervisor.
    """
    kit.set_message("Backup job created.")
    return backup_policies.create_job(hypervisors.get_group(group_id), **body)


@jobs.put(f"{JOBS_PATH}/<job_id>", op="update", can=WRITE_PERMISSION, body=BackupJobPatch, out=BackupJobOut)
def update_job(body, group_id, job_id):
    """Update a backup job of a hypervisor group.

    Only the fields you send are changed; `keep` is replaced as a whole. A job with a plan refuses what it has from the
    plan with 422. With `plan_id` null it keeps the plan's values. Returns 404 if the group has no such job.
    """
    job = backup_policies.update_job(get_job(group_id, job_id), **body)
    kit.set_message("Backup job updated.")
    return job


@jobs.delete(f"{JOBS_PATH}/<job_id>", op="delete", can=WRITE_PERMISSION)
def delete_job(group_id, job_id):
    """Delete a backup job of a hypervisor group.

    Its backups stay. Returns 404 if the group has no such job.
    """
    backup_policies.delete(get_job(group_id, job_id))
    kit.set_message("Backup job deleted.")


@plans.get(
    "/hypervisor/backup-plans",
    op="list",
    can=PLAN_READ_PERMISSION,
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(BackupPlanOut),
)
def list_plans():
    """List the backup plans.

    Sorted by name. A plan is a backup policy of the platform: it has the same id, and instances can be attached to it.
    """
    return kit.paginate(backup_policies.select_plans())


@plans.post("/hypervisor/backup-plans", op="create", can=PLAN_WRITE_PERMISSION, body=BackupPlanIn, out=BackupPlanOut)
def create_plan(body):
    """Create a backup plan.

    Schedule (in UTC), retention and destination for backup jobs of hypervisor groups, and for instances that are
    attached to it. Returns 422 under `storage` for an unknown destination.
    """
    kit.set_message("Backup plan created.")
    return backup_policies.create_plan(**body)


@plans.get(PLAN_PATH, op="get", can=PLAN_READ_PERMISSION, out=BackupPlanOut)
def show_plan(plan_id):
    """Get a backup plan with the jobs that follow it.

    Returns 404 if there is no such plan, also for policies of customers.
    """
    return backup_policies.get_plan(plan_id)


@plans.patch(PLAN_PATH, op="update", can=PLAN_WRITE_PERMISSION, body=BackupPlanPatch, out=BackupPlanOut)
def update_plan(body, plan_id):
    """Update a backup plan, and with it the jobs that follow it.

    Only the fields you send are changed. Retention applies after the next backup.
    """
    plan = backup_policies.update_plan(backup_policies.get_plan(plan_id), **body)
    kit.set_message("Backup plan updated.")
    return plan


@plans.delete(PLAN_PATH, op="delete", can=PLAN_WRITE_PERMISSION)
def delete_plan(plan_id):
    """Delete a backup plan.

    Instances are detached, and locations no longer use it; backups stay. Returns 409 `plan_in_use` while jobs
    follow it.
    """
    backup_policies.delete(backup_policies.get_plan(plan_id))
    kit.set_message("Backup plan deleted.")
