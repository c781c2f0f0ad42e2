"""Failed background jobs with their error, without the data they worked on."""

from api.connect import admin as system
from panel.schemas.failed_jobs import FailedJobsOut, FailedJobsQuery
from panel.services import failed_jobs


@system.get("/system/failed-jobs", op="failed_jobs", can="admin:tasks:read", query=FailedJobsQuery, out=FailedJobsOut)
def listing(query):
    """Count the jobs that failed.

    They are grouped by kind of job and of failure. No payload and no message of a failure is in the answer.
    """
    groups = failed_jobs.list_groups(**query)
    return {"total": sum(group.count for group in groups), "groups": groups}
