"""Comparing a node with the rows, and mending what differs when an operator asks for it."""

from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Instance
from panel.services import imports
from panel.services.instances import state_reports
from worker.engine.registry import task_handler
from worker.nodes.base import NodeError, Refused
from worker.sync import node_sync
from worker.tasks.imports import iter_described
from worker.tasks.instances import get_instance
from worker.tasks.machine_spec import build_spec


@task_handler("hypervisor_discover")
def discover(work):
    """Looks at the node now. What was found stays in the task, because the next look finds something else."""
    work.step("Looking at every machine", 10)
    work.node.ping()
    node_sync.reconcile(work.task.resource_id)
    row = node_sync.lock_hypervisor(work.task.resource_id)
    if row is None or row.status != "up":
        raise NodeError("The hypervisor does not answer.", (row and row.status_detail) or "")
    here = Instance.hypervisor_id == row.id
    lost = session.execute(select(Instance.id, Instance.name).where(here, Instance.lost).order_by(Instance.id))
    missing, strangers = [{"id": i, "name": name} for i, name in lost], list(row.strangers)
    earlier = imports.get_discovered_machines(row)
    work.step("Looking at unknown machines more closely", 50)
    unknown = list(iter_described(work.node, strangers, earlier))
    row = node_sync.lock_hypervisor(work.task.resource_id)
    for stranger in unknown:
        stranger["obstacles"] = list(imports.blocking_issues(row, stranger))
    work.task.arguments = {"unknown": unknown, "missing": missing}


@task_handler("hypervisor_remove_orphan")
def remove(work):
    """Removes the machine if still no row knows it there. Its disks stay: nobody knows whose they are."""
    machine_id, hypervisor_id = work.task.arguments["machine_id"], work.task.resource_id
    work.step("Removing the machine", 20)
    here = Instance.id == machine_id, Instance.hypervisor_id == hypervisor_id
    if session.scalar(select(Instance.id).where(*here)):
        raise Refused("An instance has this machine by now. It was not removed.")
    work.node.delete(machine_id)
    row = node_sync.lock_hypervisor(hypervisor_id)
    row.strangers = [stranger for stranger in row.strangers if stranger["id"] != machine_id]


@task_handler("instance_repair")
def repair(work):
    """Defines the machine anew when all its disks are there; it is off then."""
    instance = get_instance(work)
    work.step("Looking for its disks", 20)
    for pool in {disk.on.name for disk in instance.disks}:
        there = {disk.name for disk in work.node.disks(pool)}
        gone = [disk.name for disk in instance.disks if disk.on.name == pool and disk.name not in there]
        if gone:
            raise Refused("A disk of the machine is not there any more.", f"{pool} has no {', '.join(gone)}")
    work.step("Defining the machine", 60)
    work.node.define(build_spec(instance))
    for row in state_reports.lock_instances(instance.id):
        state_reports.report_power(row, "off", at=clock.now(), actor=work.task.actor)
