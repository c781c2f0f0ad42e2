"""Asks a guest whether Docker can be installed in it, before the installation is accepted: both APIs and the pages wait
for a worker here."""

from sqlalchemy import select

from panel.core import clock, jobs
from panel.core.db import session
from panel.models import DockerEngine
from panel.services import docker_deployments
from panel.workflows import reachability

SUPPORT_CHECK_TIMEOUT_SECONDS = 10
"""How long a request waits for the guest. What it did not say by then, the installation finds out."""


def install(instance, *, actor, by_operator=False):
    """Has Docker installed. Returns the task."""
    reachability.check_guest(instance, by_operator=by_operator)
    asked = clock.now()
    if docker_deployments.install_error(instance, by_operator=by_operator) is None:
        wait_for_check(instance, asked)
    return docker_deployments.install(instance, actor=actor, since=asked, by_operator=by_operator)


def wait_for_check(instance, requested_at):
    checked = select(DockerEngine.support_checked_at).where(DockerEngine.instance_id == instance.id)

    def is_checked():
        found = session.scalar(checked)
        return found is not None and found >= requested_at

    session.commit()  # nothing is locked while somebody asks
    jobs.enqueue_call("worker.tasks.docker_deployments.check_support", instance.id)
    jobs.wait_until(is_checked, SUPPORT_CHECK_TIMEOUT_SECONDS)
    if found := session.get(DockerEngine, instance.id):
        session.refresh(found)
