"""Install Docker in a guest. Before the task is accepted, a worker checks whether the guest supports it, and the
request of an API or page waits for that."""

from sqlalchemy import select

from panel.core import clock, jobs
from panel.core.db import session
from panel.models import DockerEngine
from panel.services import docker_deployments
from panel.workflows import reachability, waiting

SUPPORT_CHECK_TIMEOUT_SECONDS = 10
"""How long a request waits for the check. Without its result, the installation task checks."""


def install(instance, *, actor, by_operator=False):
    """Check the guest and enqueue the installation of Docker. Return the task."""
    reachability.check_guest(instance, by_operator=by_operator)
    requested_at = clock.now()
    if docker_deployments.install_error(instance, by_operator=by_operator) is None:
        wait_for_check(instance, requested_at)
    return docker_deployments.install(instance, actor=actor, since=requested_at, by_operator=by_operator)


def wait_for_check(instance, requested_at):
    query = select(DockerEngine.support_checked_at).where(DockerEngine.instance_id == instance.id)

    def is_checked():
        checked_at = session.scalar(query)
        return checked_at is not None and checked_at >= requested_at

    session.commit()  # releases locks while a worker checks
    jobs.enqueue_call("worker.tasks.docker_deployments.check_support", instance.id)
    waiting.wait_until(is_checked, SUPPORT_CHECK_TIMEOUT_SECONDS)
    if engine := session.get(DockerEngine, instance.id):
        session.refresh(engine)
