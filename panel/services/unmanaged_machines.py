"""Differences between a hypervisor and the rows: unmanaged machines, and instances whose machine is missing."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Hypervisor, Instance, Task
from panel.services.instances import actions

task_kind("instance_repair", "Repair")

DISCOVER_TASK_KIND = task_kind("hypervisor_discover", "Hypervisor discover")
REMOVE_TASK_KIND = task_kind("hypervisor_remove_orphan", "Hypervisor remove orphan")


def list_missing_instances(hypervisor: Hypervisor) -> Sequence[Instance]:
    """Return the hypervisor's instances whose machine is missing."""
    query = select(Instance).where(Instance.hypervisor_id == hypervisor.id, Instance.missing_on_node)
    return session.scalars(query.order_by(Instance.id)).all()


def discover(hypervisor: Hypervisor, *, actor: str) -> Task:
    """Enqueue a comparison of the hypervisor with the rows. Return the task."""
    return enqueue(hypervisor, DISCOVER_TASK_KIND, actor=actor)


def get_discovery(hypervisor: Hypervisor, task_id: str | None = None) -> Task:
    """Return the task of one comparison, or of the latest."""
    query = select(Task).where(Task.resource_id == hypervisor.id, Task.kind == DISCOVER_TASK_KIND)
    task = session.scalar((query.where(Task.id == task_id) if task_id else query).order_by(Task.id.desc()).limit(1))
    if task is None:
        raise NotFound(
            message("There is no such discovery.") if task_id else message("No discovery was requested yet.")
        )
    return task


def get_machine(hypervisor: Hypervisor, machine_id: str) -> dict[str, Any]:
    """Return the unmanaged machine as a dictionary of `id` and `name`, as it was observed last."""
    for machine in hypervisor.unmanaged_machines:
        if machine["id"] == machine_id:
            return machine
    raise NotFound(message("The hypervisor has no such unmanaged machine."))


def remove(hypervisor: Hypervisor, machine_id: str, *, name: str, actor: str) -> Task:
    """Enqueue the removal of an unmanaged machine. `name` is typed to confirm it; the disks stay."""
    machine = get_machine(hypervisor, machine_id)
    if name.strip() != machine["name"]:
        sentence = message("Type {name} to confirm. Nothing was removed.", name=machine["name"])
        raise Invalid(sentence, name=sentence)
    return enqueue(
        hypervisor, REMOVE_TASK_KIND, actor=actor, arguments={"machine_id": machine_id, "name": machine["name"]}
    )


def enqueue(hypervisor: Hypervisor, kind: str, **options: Any) -> Task:
    return jobs.enqueue(kind, "hypervisor", hypervisor, lock="light", hypervisor_id=hypervisor.id, **options)


def repair(instance: Instance, *, actor: str) -> Task:
    """Enqueue the definition of a missing machine from its row and its existing disks. Return the task."""
    if not instance.missing_on_node:
        raise Conflict(message("The hypervisor has this machine: there is nothing to repair."))
    actions.ensure_allowed(instance, "repair", by_operator=True)
    return actions.enqueue(instance, "repair", "exclusive", actor=actor)
