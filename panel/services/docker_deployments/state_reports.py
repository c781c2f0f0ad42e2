"""What workers saw and did in guests. Each change is made to a row that was read anew and locked."""

from sqlalchemy import delete, select, update

from panel.core import clock
from panel.core.db import session
from panel.models import DockerDeployment, DockerEngine, Instance
from panel.services.docker_deployments.actions import remember
from panel.services.docker_deployments.refusals import UNSUPPORTED

GONE = "Its containers are gone from the machine. Deploy it again."
NO_ENGINE = "Docker is not installed in the machine any more."


def held(deployment_id):
    """The app read anew and locked, or None."""
    found = select(DockerDeployment).where(DockerDeployment.id == deployment_id)
    return session.scalar(found.with_for_update(key_share=True).execution_options(populate_existing=True))


def held_by(task):
    """The same, if this task's is the latest work on it."""
    row = held(task.arguments["deployment_id"])
    return row if row and row.task_id == task.id else None


def engine_of(instance_id):
    return session.get(DockerEngine, instance_id, with_for_update={"key_share": True}, populate_existing=True)


def support_checked(instance_id, supported):
    """Notes whether Docker can be installed in the guest, as it is now."""
    found = engine_of(instance_id)
    if found is None:
        if session.get(Instance, instance_id) is None:
            return
        found = DockerEngine(instance_id=instance_id, leftover={})
        session.add(found)
    found.unsupported = None if supported else UNSUPPORTED
    found.support_checked_at = clock.now()


def installed(task):
    found = engine_of(task.resource_id)
    if found:
        found.installed_at = found.checked_at = clock.now()
        found.error = None


def not_installed(task, error):
    found = engine_of(task.resource_id)
    if found and found.task_id == task.id:
        found.error = error[:2000]


def state(row, word, sentence):
    """Notes how its containers do: `running`, `stopped`, `error` with a sentence, or `missing`. What could not be
    deployed has to be deployed before its containers can be missing."""
    row.checked_at = clock.now()
    if word == "missing":
        if row.status == "failed":
            return
        word, sentence = "error", GONE
    row.status, row.error_message = word, sentence if word == "error" else None
    if word == "running":
        row.deployed_at = row.deployed_at or clock.now()


def failed(row, error):
    row.status, row.error_message, row.compose = "failed", error[:2000], None


def not_removed(task):
    """Somebody has to do that when the guest is back."""
    remember(task.resource_id, task.arguments["project_name"], task.arguments.get("tries", 0))


def engine_gone(instance_id):
    """Somebody removed the engine in the guest, or its disk is as it was before."""
    found = engine_of(instance_id)
    if found:
        found.installed_at, found.checked_at = None, clock.now()
    mine = update(DockerDeployment).where(DockerDeployment.instance_id == instance_id)
    settled = DockerDeployment.status.in_(("running", "stopped", "error"))
    session.execute(mine.where(settled).values(status="error", error_message=NO_ENGINE, checked_at=clock.now()))


def look_anew(instance):
    """The disks are as they were at another time: what is known of the guest has to be looked at again."""
    for model in (DockerEngine, DockerDeployment):
        session.execute(update(model).where(model.instance_id == instance.id).values(checked_at=None))


def forget(instance):
    """The disk is a new one: nothing of all this is there any more."""
    for model in (DockerDeployment, DockerEngine):
        session.execute(delete(model).where(model.instance_id == instance.id))


def wrote(row, text, problem):
    """Notes what its containers wrote, or why nobody knows."""
    row.logs_error = problem
    if problem is None:
        row.logs, row.logs_at = text.replace("\0", ""), clock.now()
