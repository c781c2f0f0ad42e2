"""Failed background jobs with their error class, without their data."""

from api.connect import admin as system
from panel.schemas.failed_jobs import FailedJobsOut, FailedJobsQuery
from panel.services import failed_jobs


@system.get("/system/failed-jobs", op="failed_jobs", can="admin:tasks:read", query=FailedJobsQuery, out=FailedJobsOut)
def listing(query):
    """Count failed jobs, grouped by job kind and error class.

    Payloads and error messages are not returned.
    """
    groups = failed_jobs.list_groups(**query)
    return {"total": sum(group.count for group in groups), "groups": groups}
