"""Tasks of operators that compare a node with the rows, and repair differences."""

from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.core.messages import message
from panel.models import Instance, Microvm, MicrovmPoolMember
from panel.services import backup_files, backup_restore_tests, imports
from panel.services.instances import state_reports
from worker.engine.registry import task_handler
from worker.nodes.base import NodeError, Refused
from worker.sync import microvms, node_sync
from worker.tasks.imports import iter_machine_descriptions
from worker.tasks.instances import get_instance
from worker.tasks.machine_spec import build_spec


@task_handler("hypervisor_discover")
def discover(work):
    """Reconcile the node now and describe its unmanaged machines.

    The result is stored in the task, because the next poll may find others.
    """
    work.step(message("Inspecting all machines"), 10)
    work.node.ping()
    node_sync.reconcile(work.task.resource_id)
    row = node_sync.lock_existing_hypervisor(work.task.resource_id)
    if row.status != "up":
        raise NodeError(message("The hypervisor does not answer."), row.status_detail or "")
    is_on_node = Instance.hypervisor_id == row.id
    lost = session.execute(
        select(Instance.id, Instance.name).where(is_on_node, Instance.missing_on_node).order_by(Instance.id)
    )
    missing, machines = [{"id": instance_id, "name": name} for instance_id, name in lost], list(row.unmanaged_machines)
    previous = imports.get_discovered_machines(row)
    work.step(message("Inspecting unmanaged machines"), 50)
    described = list(iter_machine_descriptions(work.node, machines, previous))
    row = node_sync.lock_existing_hypervisor(work.task.resource_id)
    for machine in described:
        machine["obstacles"] = list(imports.list_blocking_issues(row, machine))
    work.task.arguments = {"unknown": list(map(imports.dump_description, described)), "missing": missing}


@task_handler("hypervisor_remove_orphan")
def remove(work):
    """Delete the machine from the node unless a row has it by now. Its disks stay, because their owner is not known."""
    machine_id, hypervisor_id = work.task.arguments["machine_id"], work.task.resource_id
    work.step(message("Removing the machine"), 20)
    conditions = Instance.id == machine_id, Instance.hypervisor_id == hypervisor_id
    if session.scalar(select(Instance.id).where(*conditions)):
        raise Refused(message("This VM now belongs to an instance. It was not removed."))
    if session.scalar(select(Microvm.id).where(Microvm.id == machine_id, Microvm.ended_at.is_(None))):
        raise Refused(message("This VM is a micro VM. It was not removed."))
    if machine_id in microvms.find_building_machines(hypervisor_id):
        raise Refused(message("This VM builds a micro VM image. It was not removed."))
    if machine_id in backup_files.list_machine_ids(hypervisor_id):
        raise Refused(message("This VM reads the files of a backup. It was not removed."))
    if (test := backup_restore_tests.find_by_id(machine_id)) and test.status == "running":
        raise Refused(message("This VM tests a backup. It was not removed."))
    if session.get(MicrovmPoolMember, machine_id):
        raise Refused(message("This VM belongs to a warm pool. It was not removed."))
    work.node.delete(machine_id)
    row = node_sync.lock_existing_hypervisor(hypervisor_id)
    row.unmanaged_machines = [machine for machine in row.unmanaged_machines if machine["id"] != machine_id]


@task_handler("instance_repair")
def repair(work):
    """Define the machine again when all its disks exist. It is off afterwards."""
    instance = get_instance(work)
    work.step(message("Checking its disks"), 20)
    for pool in {disk.storage.name for disk in instance.disks}:
        existing = {disk.name for disk in work.node.disks(pool)}
        missing = [disk.name for disk in instance.disks if disk.storage.name == pool and disk.name not in existing]
        if missing:
            raise Refused(
                message("A disk of the machine is not there any more."), f"{pool} has no {', '.join(missing)}"
            )
    work.step(message("Defining the machine"), 60)
    work.node.define(build_spec(instance))
    for row in state_reports.lock_instances(instance.id):
        state_reports.report_power(row, "off", at=clock.now(), actor=work.task.actor)
