"""Finding the apps of an instance, and its Docker engine."""

from collections.abc import Sequence

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.models import DockerDeployment, DockerEngine, Instance, Task


def listing(instance: Instance) -> Sequence[DockerDeployment]:
    """Return the apps, oldest first."""
    query = select(DockerDeployment).where(DockerDeployment.instance_id == instance.id)
    return session.scalars(query.order_by(DockerDeployment.id)).all()


def get(instance: Instance, deployment_id: str) -> DockerDeployment:
    conditions = DockerDeployment.instance_id == instance.id, DockerDeployment.id == deployment_id
    row = session.scalar(select(DockerDeployment).where(*conditions))
    if row is None:
        raise NotFound(message("The instance has no such app."))
    return row


def find_engine(instance: Instance) -> DockerEngine | None:
    """Return the row of its Docker engine, or None when nobody ever requested one."""
    return session.get(DockerEngine, instance.id)


def is_engine_installed(instance: Instance) -> bool:
    engine = find_engine(instance)
    return engine is not None and engine.installed_at is not None


def find_installation(instance: Instance) -> Task | None:
    """Return the open task that installs the engine, or None."""
    engine = find_engine(instance)
    task = engine and engine.task_id and session.get(Task, engine.task_id)
    return task if task and task.open else None


def get_logs(row: DockerDeployment) -> str:
    """Return the output of its containers at the last request; "" when there was none."""
    text = session.scalar(select(DockerDeployment.logs).where(DockerDeployment.id == row.id))
    return text or ""
