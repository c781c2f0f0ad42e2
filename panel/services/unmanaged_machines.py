"""What a hypervisor and the panel do not agree about: machines that no row knows, rows whose machine is missing."""

from sqlalchemy import select

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.models import Instance, Task
from panel.services.instances import actions

DISCOVER_TASK_KIND, REMOVE_TASK_KIND = "hypervisor_discover", "hypervisor_remove_orphan"


def list_missing_instances(hypervisor):
    """The instances that the hypervisor should have and does not."""
    query = select(Instance).where(Instance.hypervisor_id == hypervisor.id, Instance.lost)
    return session.scalars(query.order_by(Instance.id)).all()


def discover(hypervisor, *, actor):
    """Has a worker compare the hypervisor with the rows now. Returns the task."""
    return enqueue(hypervisor, DISCOVER_TASK_KIND, actor=actor)


def get_discovery(hypervisor, task_id=None):
    """The task of one comparison, or of the latest."""
    query = select(Task).where(Task.resource_id == hypervisor.id, Task.kind == DISCOVER_TASK_KIND)
    found = session.scalar((query.where(Task.id == task_id) if task_id else query).order_by(Task.id.desc()).limit(1))
    if found is None:
        raise NotFound("There is no such discovery." if task_id else "Nobody asked for a discovery yet.")
    return found


def get_machine(hypervisor, machine_id):
    """The machine as it was last seen there: its id and name."""
    for found in hypervisor.strangers:
        if found["id"] == machine_id:
            return found
    raise NotFound("The hypervisor has no such unknown machine.")


def remove(hypervisor, machine_id, *, name, actor):
    """Has a worker remove a machine that no row knows. `name` is what somebody typed to confirm; its disks stay."""
    found = get_machine(hypervisor, machine_id)
    if name.strip() != found["name"]:
        sentence = f"Type {found['name']} to confirm. Nothing was removed."
        raise Invalid(sentence, name=sentence)
    return enqueue(
        hypervisor, REMOVE_TASK_KIND, actor=actor, arguments={"machine_id": machine_id, "name": found["name"]}
    )


def enqueue(hypervisor, kind, **more):
    return jobs.enqueue(kind, "hypervisor", hypervisor, lock="light", hypervisor_id=hypervisor.id, **more)


def repair(instance, *, actor):
    """Has a worker define a missing machine anew from its row and the disks that are there. Returns the task."""
    if not instance.lost:
        raise Conflict("The hypervisor has this machine: there is nothing to repair.")
    actions.ensure_allowed(instance, "repair", by_operator=True)
    return actions.enqueue(instance, "repair", "exclusive", actor=actor)
