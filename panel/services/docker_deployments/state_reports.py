"""What workers saw and did in guests. Each change is made to a row that was read anew and locked."""

from sqlalchemy import delete, select, update

from panel.core import clock
from panel.core.db import session
from panel.models import DockerDeployment, DockerEngine, Instance
from panel.services.docker_deployments.actions import remember_leftover
from panel.services.docker_deployments.refusals import UNSUPPORTED_SYSTEM_MESSAGE

CONTAINERS_GONE_MESSAGE = "Its containers are gone from the machine. Deploy it again."
ENGINE_GONE_MESSAGE = "Docker is not installed in the machine any more."


def lock_deployment(deployment_id):
    """The app read anew and locked, or None."""
    found = select(DockerDeployment).where(DockerDeployment.id == deployment_id)
    return session.scalar(found.with_for_update(key_share=True).execution_options(populate_existing=True))


def lock_deployment_of(task):
    """The same, if this task's is the latest work on it."""
    row = lock_deployment(task.arguments["deployment_id"])
    return row if row and row.task_id == task.id else None


def lock_engine(instance_id):
    return session.get(DockerEngine, instance_id, with_for_update={"key_share": True}, populate_existing=True)


def record_support(instance_id, supported):
    """Notes whether Docker can be installed in the guest, as it is now."""
    found = lock_engine(instance_id)
    if found is None:
        if session.get(Instance, instance_id) is None:
            return
        found = DockerEngine(instance_id=instance_id, leftover={})
        session.add(found)
    found.unsupported = None if supported else UNSUPPORTED_SYSTEM_MESSAGE
    found.support_checked_at = clock.now()


def record_installed(task):
    found = lock_engine(task.resource_id)
    if found:
        found.installed_at = found.checked_at = clock.now()
        found.error = None


def record_install_failure(task, error):
    found = lock_engine(task.resource_id)
    if found and found.task_id == task.id:
        found.error = error[:2000]


def record_state(row, word, sentence):
    """Notes how its containers do: `running`, `stopped`, `error` with a sentence, or `missing`. What could not be
    deployed has to be deployed before its containers can be missing."""
    row.checked_at = clock.now()
    if word == "missing":
        if row.status == "failed":
            return
        word, sentence = "error", CONTAINERS_GONE_MESSAGE
    row.status, row.error_message = word, sentence if word == "error" else None
    if word == "running":
        row.deployed_at = row.deployed_at or clock.now()


def record_failure(row, error):
    row.status, row.error_message, row.compose = "failed", error[:2000], None


def remember_not_removed(task):
    """Somebody has to do that when the guest is back."""
    remember_leftover(task.resource_id, task.arguments["project_name"], task.arguments.get("tries", 0))


def record_engine_gone(instance_id):
    """Somebody removed the engine in the guest, or its disk is as it was before."""
    found = lock_engine(instance_id)
    if found:
        found.installed_at, found.checked_at = None, clock.now()
    mine = update(DockerDeployment).where(DockerDeployment.instance_id == instance_id)
    settled = DockerDeployment.status.in_(("running", "stopped", "error"))
    session.execute(
        mine.where(settled).values(status="error", error_message=ENGINE_GONE_MESSAGE, checked_at=clock.now())
    )


def invalidate(instance):
    """The disks are as they were at another time: what is known of the guest has to be looked at again."""
    for model in (DockerEngine, DockerDeployment):
        session.execute(update(model).where(model.instance_id == instance.id).values(checked_at=None))


def forget(instance):
    """The disk is a new one: nothing of all this is there any more."""
    for model in (DockerDeployment, DockerEngine):
        session.execute(delete(model).where(model.instance_id == instance.id))


def record_logs(row, text, problem):
    """Notes what its containers wrote, or why nobody knows."""
    row.logs_error = problem
    if problem is None:
        row.logs, row.logs_at = text.replace("\0", ""), clock.now()
