"""Emptying a hypervisor."""

from sqlalchemy import select

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Problem
from panel.models import Instance, Migration
from panel.services.migrations.start import start
from panel.services.migrations.target_selection import select_target


def evacuate(hypervisor, *, actor):
    """Closes the hypervisor and moves every machine to where most room is in its location: a task for each, and one
    that follows them. Returns that one, and for each machine that cannot be moved now the reason, by its name."""
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
    begun = session.scalars(select(Migration.task_id).where(Migration.parent_task_id == parent.id)).all()
    for task_id in (*begun, parent.id):  # a refusal that was taken back has taken these bells along
        jobs.notify_after_commit(task_id)
    return parent


def move_away(instance, actor, parent):
    """A machine that was never made has nothing on the host: only its rows move."""
    if instance.deployed or instance.rebuilding:
        start(instance, actor=actor, parent_task_id=parent.id)
        return
    host, storage = select_target(instance)
    instance.hypervisor_id = host.id
    for disk in instance.disks:
        disk.storage_id = storage.id
    session.flush()
