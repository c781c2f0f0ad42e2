"""Installing the engine; starting, stopping, looking at and removing apps."""

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import Conflict
from panel.models import DockerEngine, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import tasks
from panel.services.docker_deployments import read, refusals
from panel.services.docker_deployments.deploy import enqueue

NOT_DEPLOYED_MESSAGE = "The app was not deployed. Try that again first."
MAX_REMOVAL_TRIES = 5
"""How often a removal that did not work is tried once more."""

REMOVAL_BLOCKERS = ("suspended", "task_running")
"""Why even a removal is refused. Else it only finds nobody in the guest, and is made up for when the guest is back."""


def install(instance, *, actor, since, by_operator=False):
    """Installs Docker in the running guest. Returns the task. A guest that said `since` then that it has no package
    manager is refused with `unsupported_system`."""
    refusals.lock_instance(instance)
    refusals.ensure_not_refused(refusals.install_error(instance, by_operator=by_operator))
    found = read.find_engine(instance)
    if found and found.unsupported and found.support_checked_at >= since:
        refusals.ensure_not_refused("unsupported_system")
    task = enqueue(instance, "install", actor)
    if found is None:
        found = DockerEngine(instance_id=instance.id, leftover={})
        session.add(found)
    found.task_id, found.error = task.id, None
    session.flush()
    return task


def control(row, action, *, actor, by_operator=False):
    """Starts, stops or restarts its containers. Returns the task."""
    refusals.lock_instance(row.instance)
    refusals.ensure_not_refused(refusals.engine_error(row.instance, by_operator=by_operator))
    if row.status == "failed":
        raise Conflict(NOT_DEPLOYED_MESSAGE, reason="not_deployed")
    task = enqueue(row.instance, "control", actor, deployment_id=row.id, action=action)
    row.task_id = task.id
    session.flush()
    return task


def request_probe(row, *, actor, by_operator=False):
    """Has somebody look at it in the guest. Returns the task, which may be one that is under way."""
    refusals.ensure_not_refused(refusals.guest_error(row.instance, by_operator=by_operator))
    same = (task for task in list_open_tasks(row) if task.kind == "docker_probe")
    return next(same, None) or enqueue(row.instance, "probe", actor, deployment_id=row.id)


def remove(row, *, actor, by_operator=False):
    """Removes the app: here at once, its containers in the guest by a task, which is returned; None when nobody can be
    reached there now. Then they are removed when the guest is back. Data in its volumes stays."""
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


def remember_leftover(instance_id, project, tries=0):
    """That the project has to be removed in the guest when somebody is reached there, unless that was tried often."""
    found = session.get(DockerEngine, instance_id, with_for_update={"key_share": True}, populate_existing=True)
    if found and tries < MAX_REMOVAL_TRIES:
        found.leftover, found.has_leftover = {**found.leftover, project: tries}, True
        session.flush()


def reconcile(instance):
    """Asks for what could not be removed. What cannot be removed now either is remembered once more."""
    found = session.get(DockerEngine, instance.id, with_for_update={"key_share": True}, populate_existing=True)
    left, found.leftover, found.has_leftover = found.leftover, {}, False
    for project, tries in left.items():
        enqueue(instance, "remove", "system", project_name=project, tries=tries + 1)
    session.flush()


def list_open_tasks(row):
    """Open tasks that work on the app."""
    mine = (
        Task.resource_id == row.instance_id,
        Task.status.in_(OPEN_STATUSES),
        Task.kind.in_(refusals.DOCKER_TASK_KINDS),
    )
    found = session.scalars(select(Task).where(*mine).order_by(Task.id))
    return [task for task in found if task.arguments.get("deployment_id") == row.id]
