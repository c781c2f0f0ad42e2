"""Evacuate a hypervisor."""

from sqlalchemy import select

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Problem
from panel.core.task_kinds import task_kind
from panel.models import Hypervisor, Instance, Migration, Task
from panel.services.migrations.start import start
from panel.services.migrations.target_selection import select_target

task_kind("hypervisor_evacuate", "Hypervisor evacuate")


def evacuate(hypervisor: Hypervisor, *, actor: str) -> Task:
    """Put the hypervisor into maintenance and migrate every machine to the hypervisor with the most room.

    Each has a task; return the parent task that follows them. Its arguments have, for each machine that cannot be moved
    now, the reason by its name.
    """
    hypervisor.maintenance = True
    parent = jobs.enqueue(
        "hypervisor_evacuate", "hypervisor", hypervisor, lock="exclusive", actor=actor, hypervisor_id=hypervisor.id
    )
    refused = {}
    for instance in session.scalars(select(Instance).where(Instance.hypervisor_id == hypervisor.id)).all():
        try:
            with session.begin_nested():
                move_away(instance, actor, parent)
        except Problem as error:
            refused[instance.name] = error.message
    parent.arguments = {"refused": refused}
    session.flush()
    task_ids = session.scalars(select(Migration.task_id).where(Migration.parent_task_id == parent.id)).all()
    for task_id in (*filter(None, task_ids), parent.id):  # a rolled-back savepoint also dropped their notifications
        jobs.notify_after_commit(task_id)
    return parent


def move_away(instance: Instance, actor: str, parent: Task) -> None:
    """Start the migration of a machine.

    Only the rows change if it was never deployed, because the host has nothing of it.
    """
    if instance.deployed or instance.rebuilding:
        start(instance, actor=actor, parent_task_id=parent.id)
        return
    host, storage = select_target(instance)
    instance.hypervisor_id = host.id
    for disk in instance.disks:
        disk.storage_id = storage.id
    session.flush()
