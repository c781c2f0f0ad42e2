"""Comparing a node with the rows, and mending what differs when an operator asks for it."""

from sqlalchemy import select

from panel import clock
from panel.db import session
from panel.models import Instance
from panel.services import adoptions
from panel.services.instances import seen
from worker import hypervisors
from worker.adoptions import described
from worker.instances import known
from worker.kinds import task
from worker.machines import machine
from worker.nodes.base import NodeError, Refused


@task("hypervisor_discover")
def discover(work):
    """Looks at the node now. What was found stays in the task, because the next look finds something else."""
    work.step("Looking at every machine", 10)
    work.node.ping()
    hypervisors.refresh(work.task.resource_id)
    row = hypervisors.locked(work.task.resource_id)
    if row is None or row.status != "up":
        raise NodeError("The hypervisor does not answer.", (row and row.status_detail) or "")
    here = Instance.hypervisor_id == row.id
    lost = session.execute(select(Instance.id, Instance.name).where(here, Instance.lost).order_by(Instance.id))
    missing, strangers = [{"id": i, "name": name} for i, name in lost], list(row.strangers)
    earlier = adoptions.described(row)
    work.step("Looking at unknown machines more closely", 50)
    unknown = list(described(work.node, strangers, earlier))
    row = hypervisors.locked(work.task.resource_id)
    for stranger in unknown:
        stranger["obstacles"] = list(adoptions.obstacles(row, stranger))
    work.task.arguments = {"unknown": unknown, "missing": missing}


@task("hypervisor_remove_orphan")
def remove(work):
    """Removes the machine if still no row knows it there. Its disks stay: nobody knows whose they are."""
    machine_id, hypervisor_id = work.task.arguments["machine_id"], work.task.resource_id
    work.step("Removing the machine", 20)
    here = Instance.id == machine_id, Instance.hypervisor_id == hypervisor_id
    if session.scalar(select(Instance.id).where(*here)):
        raise Refused("An instance has this machine by now. It was not removed.")
    work.node.delete(machine_id)
    row = hypervisors.locked(hypervisor_id)
    row.strangers = [stranger for stranger in row.strangers if stranger["id"] != machine_id]


@task("instance_repair")
def repair(work):
    """Defines the machine anew when all its disks are there; it is off then."""
    instance = known(work)
    work.step("Looking for its disks", 20)
    for pool in {disk.on.name for disk in instance.disks}:
        there = {disk.name for disk in work.node.disks(pool)}
        gone = [disk.name for disk in instance.disks if disk.on.name == pool and disk.name not in there]
        if gone:
            raise Refused("A disk of the machine is not there any more.", f"{pool} has no {', '.join(gone)}")
    work.step("Defining the machine", 60)
    work.node.define(machine(instance))
    for row in seen.fresh(instance.id):
        seen.power(row, "off", at=clock.now(), actor=work.task.actor)
