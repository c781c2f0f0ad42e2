"""Installing the Docker engine; starting, stopping, probing and removing apps."""

from datetime import datetime

from sqlalchemy import select

from panel.core.db import lock_row, session
from panel.core.errors import Conflict
from panel.core.messages import message
from panel.models import DockerDeployment, DockerEngine, Instance, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import tasks
from panel.services.docker_deployments import read, refusals
from panel.services.docker_deployments.deploy import enqueue

NOT_DEPLOYED_MESSAGE = message("The app was not deployed. Deploy it again first.")
MAX_REMOVAL_TRIES = 5
"""How often a failed removal is repeated."""

REMOVAL_BLOCKERS = ("suspended", "task_running")
"""Reasons for which even a removal is refused. For any other one the containers are removed when the guest is reachable
again."""


def install(instance: Instance, *, actor: str, since: datetime, by_operator: bool = False) -> Task:
    """Install Docker in the running guest. Return the task. Raise `unsupported_system` when the guest reported since
    `since` that it has no known package manager."""
    refusals.lock_instance(instance)
    refusals.ensure_not_refused(refusals.install_error(instance, by_operator=by_operator))
    engine = read.find_engine(instance)
    if engine and engine.unsupported and engine.support_checked_at and engine.support_checked_at >= since:
        refusals.ensure_not_refused("unsupported_system")
    task = enqueue(instance, "install", actor)
    if engine is None:
        engine = DockerEngine(instance_id=instance.id, leftover={})
        session.add(engine)
    engine.task_id, engine.error = task.id, None
    session.flush()
    return task


def control(row: DockerDeployment, action: str, *, actor: str, by_operator: bool = False) -> Task:
    """Start, stop or restart its containers. Return the task."""
    refusals.lock_instance(row.instance)
    refusals.ensure_not_refused(refusals.engine_error(row.instance, by_operator=by_operator))
    if row.status == "failed":
        raise Conflict(NOT_DEPLOYED_MESSAGE, reason="not_deployed")
    task = enqueue(row.instance, "control", actor, deployment_id=row.id, action=action)
    row.task_id = task.id
    session.flush()
    return task


def request_probe(row: DockerDeployment, *, actor: str, by_operator: bool = False) -> Task:
    """Have a worker check the app in the guest. Return the task, which may be one that is already open."""
    refusals.ensure_not_refused(refusals.guest_error(row.instance, by_operator=by_operator))
    probes = (task for task in list_open_tasks(row) if task.kind == "docker_probe")
    return next(probes, None) or enqueue(row.instance, "probe", actor, deployment_id=row.id)


def remove(row: DockerDeployment, *, actor: str, by_operator: bool = False) -> Task | None:
    """Remove the app. Its row is deleted at once, its containers by a task, which is returned. None when the guest
    cannot be reached: then they are removed when it is back. Data in its volumes stays."""
    instance = row.instance
    reason = refusals.guest_error(instance, by_operator=by_operator)
    if reason in REMOVAL_BLOCKERS:
        refusals.ensure_not_refused(reason)
    for task in list_open_tasks(row):
        if task.cancellable:
            tasks.cancel(task)
    project = row.project_name
    session.delete(row)
    session.flush()
    if reason is None:
        return enqueue(instance, "remove", actor, project_name=project)
    remember_leftover(instance.id, project)
    return None


def remember_leftover(instance_id: str, project: str, tries: int = 0) -> None:
    """Record that the project has to be removed when the guest is reachable, unless that was tried `MAX_REMOVAL_TRIES`
    times."""
    engine = lock_row(DockerEngine, instance_id)
    if engine and tries < MAX_REMOVAL_TRIES:
        engine.leftover, engine.has_leftover = {**engine.leftover, project: tries}, True
        session.flush()


def reconcile(instance: Instance) -> None:
    """Enqueue removals of leftover projects. A failed one is recorded again."""
    engine = lock_row(DockerEngine, instance.id)
    if engine is None:
        return
    leftovers, engine.leftover, engine.has_leftover = engine.leftover, {}, False
    for project, tries in leftovers.items():
        enqueue(instance, "remove", "system", project_name=project, tries=tries + 1)
    session.flush()


def list_open_tasks(row: DockerDeployment) -> list[Task]:
    """Return the open tasks of the app."""
    conditions = (
        Task.resource_id == row.instance_id,
        Task.status.in_(OPEN_STATUSES),
        Task.kind.in_(refusals.DOCKER_TASK_KINDS),
    )
    open_tasks = session.scalars(select(Task).where(*conditions).order_by(Task.id))
    return [task for task in open_tasks if task.arguments.get("deployment_id") == row.id]
