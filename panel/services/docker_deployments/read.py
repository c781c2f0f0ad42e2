"""Finding the apps of an instance, and what is known of its engine."""

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import NotFound
from panel.models import DockerDeployment, DockerEngine, Task


def listing(instance):
    """Oldest first."""
    mine = select(DockerDeployment).where(DockerDeployment.instance_id == instance.id)
    return session.scalars(mine.order_by(DockerDeployment.id)).all()


def get(instance, deployment_id):
    wanted = DockerDeployment.instance_id == instance.id, DockerDeployment.id == deployment_id
    found = session.scalar(select(DockerDeployment).where(*wanted))
    if found is None:
        raise NotFound("The instance has no such app.")
    return found


def find_engine(instance):
    """What is known of its container engine, or None when nobody ever asked for one."""
    return session.get(DockerEngine, instance.id)


def is_engine_installed(instance):
    found = find_engine(instance)
    return found is not None and found.installed_at is not None


def find_installation(instance):
    """The installation under way, or None."""
    found = find_engine(instance)
    task = found and found.task_id and session.get(Task, found.task_id)
    return task if task and task.open else None


def get_logs(row):
    """What its containers wrote when somebody last asked; "" when nobody did."""
    text = session.scalar(select(DockerDeployment.logs).where(DockerDeployment.id == row.id))
    return text or ""
