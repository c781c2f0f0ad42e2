"""What workers observed and did in guests. Each row is read again and locked before it is changed."""

from sqlalchemy import delete, select, update

from panel.core import clock
from panel.core.db import lock_row, session, with_lock
from panel.core.messages import message
from panel.models import DockerDeployment, DockerEngine, Instance, Task
from panel.services.docker_deployments.actions import remember_leftover
from panel.services.docker_deployments.refusals import UNSUPPORTED_SYSTEM_MESSAGE

CONTAINERS_GONE_MESSAGE = message("Its containers no longer exist in the instance. Deploy it again.")
ENGINE_GONE_MESSAGE = message("Docker is no longer installed in the instance.")


def lock_deployment(deployment_id: str) -> DockerDeployment | None:
    """Return the app, read again and locked, or None."""
    query = select(DockerDeployment).where(DockerDeployment.id == deployment_id)
    return session.scalar(with_lock(query, key_share=True))


def lock_deployment_of(task: Task) -> DockerDeployment | None:
    """Return the task's app, read again and locked, or None when a later task works on it."""
    row = lock_deployment(task.arguments["deployment_id"])
    return row if row and row.task_id == task.id else None


def lock_engine(instance_id: str) -> DockerEngine | None:
    return lock_row(DockerEngine, instance_id)


def record_support(instance_id: str, supported: bool) -> None:
    """Record whether Docker can be installed in the guest."""
    engine = lock_engine(instance_id)
    if engine is None:
        if session.get(Instance, instance_id) is None:
            return
        engine = DockerEngine(instance_id=instance_id, leftover={})
        session.add(engine)
    engine.unsupported = None if supported else UNSUPPORTED_SYSTEM_MESSAGE
    engine.support_checked_at = clock.now()


def record_installed(task: Task) -> None:
    engine = lock_engine(task.resource_id)
    if engine:
        engine.installed_at = engine.checked_at = clock.now()
        engine.error = None


def record_install_failure(task: Task, error: str) -> None:
    engine = lock_engine(task.resource_id)
    if engine and engine.task_id == task.id:
        engine.error = error


def record_state(row: DockerDeployment, state: str, message: str | None) -> None:
    """Record the state of its containers: `running`, `stopped`, `error` with a message, or `missing`. Of an app whose
    deploy failed, missing containers are not an error."""
    row.checked_at = clock.now()
    if state == "missing":
        if row.status == "failed":
            return
        state, message = "error", CONTAINERS_GONE_MESSAGE
    row.status, row.error_message = state, message if state == "error" else None
    if state == "running":
        row.deployed_at = row.deployed_at or clock.now()


def record_failure(row: DockerDeployment, error: str) -> None:
    row.status, row.error_message, row.compose = "failed", error, None


def remember_not_removed(task: Task) -> None:
    """Record that the project has to be removed when the guest is reachable again."""
    remember_leftover(task.resource_id, task.arguments["project_name"], task.arguments.get("tries", 0))


def record_engine_gone(instance_id: str) -> None:
    """Record that the engine is missing in the guest: somebody removed it, or the disk was rolled back."""
    engine = lock_engine(instance_id)
    if engine:
        engine.installed_at, engine.checked_at = None, clock.now()
    query = update(DockerDeployment).where(DockerDeployment.instance_id == instance_id)
    was_deployed = DockerDeployment.status.in_(("running", "stopped", "error"))
    session.execute(
        query.where(was_deployed).values(status="error", error_message=ENGINE_GONE_MESSAGE, checked_at=clock.now())
    )


def invalidate(instance: Instance) -> None:
    """Mark the known state as outdated, so that it is polled again: the disks were rolled back."""
    for model in (DockerEngine, DockerDeployment):
        session.execute(update(model).where(model.instance_id == instance.id).values(checked_at=None))


def forget(instance: Instance) -> None:
    """Delete all rows about Docker: the instance has a new disk."""
    for model in (DockerDeployment, DockerEngine):
        session.execute(delete(model).where(model.instance_id == instance.id))


def record_logs(row: DockerDeployment, text: str | None, problem: str | None) -> None:
    """Record the output of its containers, or why it could not be read."""
    row.logs_error = problem
    if text is not None:
        row.logs, row.logs_at = text.replace("\0", ""), clock.now()
