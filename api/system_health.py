"""The health of the platform and its periodic jobs, for operators."""

from redis import RedisError

from api import kit
from api.connect import admin as system
from panel.core.errors import NotFound, Unavailable
from panel.schemas.platform import HealthOut, PeriodicJobOut
from panel.services import platform_health, schedule_runs


@system.get("/system/health", op="health", can="admin:system:read", out=HealthOut)
def show_health():
    """Get the health of the platform.

    The status is 200 also when there are problems. Workers write the values; this call queries no hypervisor.
    """
    return platform_health.describe_health()


@system.get(
    "/system/scheduler",
    op="scheduler",
    can="admin:system:read",
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(PeriodicJobOut),
)
def list_jobs():
    """List the periodic jobs with their last start, by name.

    A job is in the list after its first start. Returns 503 while Redis is unreachable.
    """
    return kit.paginate_list(read_jobs())


@system.get("/system/scheduler/command/<command>", op="scheduler_command", can="admin:system:read", out=PeriodicJobOut)
def show_job(command):
    """Get a periodic job with its last start.

    Returns 404 if no job with this name was started in the last day. Returns 503 while Redis is unreachable.
    """
    job = next((job for job in read_jobs() if job["command"] == command), None)
    if job is None:
        raise NotFound("There is no periodic job with this name.")
    return job


def read_jobs():
    try:
        return schedule_runs.listing()
    except (RedisError, OSError) as error:
        raise Unavailable("Redis is unreachable. Try again later.") from error
