"""Describing and importing machines that the panel did not create."""

from contextlib import suppress

from panel.core import clock
from panel.core.db import session
from panel.core.messages import message
from panel.services import imports
from panel.services.instances import state_reports
from worker.engine.registry import task_handler
from worker.nodes.base import GiB, NodeError, NotOnNode, Refused
from worker.sync import node_sync
from worker.tasks.machine_spec import build_spec


def iter_machine_descriptions(node, machines, previous):
    """Yield a description of each unmanaged machine. Without an answer from its agent, earlier addresses are used."""
    answering = node.ping_agents([item["id"] for item in machines]) if machines else {}
    for machine in machines:
        with suppress(NotOnNode):
            description = node.describe_machine(machine["id"])
            addresses = find_addresses(node, description.id) if answering.get(description.id) else None
            if addresses is None:
                addresses = {nic["mac"]: nic["addresses"] for nic in previous.get(description.id, {}).get("nics", ())}
            yield to_dict(description, addresses)


def find_addresses(node, machine_id):
    try:
        return node.agent_addresses(machine_id)
    except NodeError:  # it hangs, or the machine was turned off meanwhile
        return None


def to_dict(description, addresses):
    """Return the description as stored in a task and checked by services."""
    return {
        "id": description.id,
        "name": description.name,
        "power": str(description.power),
        "cpu_cores": description.cpu_cores,
        "memory_mb": description.memory_mb,
        "disks": [
            {
                "device": disk.device,
                "storage": disk.pool,
                "name": disk.name,
                "size": -(-disk.size // GiB),
                "fault": disk.fault,
            }
            for disk in description.disks
        ],
        "nics": [
            {"mac": nic.mac, "network": nic.network, "addresses": list(addresses.get(nic.mac, ()))}
            for nic in description.nics
        ],
        "tpm": description.tpm,
        "secure_boot": description.secure_boot,
        "faults": list(description.faults),
    }


@task_handler(imports.IMPORT_TASK_KIND)
def import_machine(work):
    """Import the machine: define it as its new rows describe it, then create the rows.

    The rows are first created in a savepoint, to check them and to build the definition. After a failure the rollback
    step restores the machine's own definition.
    """
    arguments, hypervisor_id = work.task.arguments, work.task.resource_id
    work.step(message("Inspecting the machine"), 10)
    description = work.node.describe_machine(arguments["machine_id"])
    if description.name != arguments["machine_name"]:
        raise Refused(message("The machine has another name now. Run discovery again."), f"it is {description.name}")
    machine = to_dict(description, {})
    spec = build_planned_spec(hypervisor_id, machine, arguments)
    work.undo("revert_import", description.id)
    work.step(message("Defining the machine"), 50)
    work.node.import_machine(spec)
    work.step(message("Creating the instance"), 90)
    row = node_sync.lock_existing_hypervisor(hypervisor_id)
    instance = imports.create_instance(hypervisor_id, machine, arguments)
    row.unmanaged_machines = [unmanaged for unmanaged in row.unmanaged_machines if unmanaged["id"] != description.id]
    state_reports.report_power(instance, "off", at=clock.now(), actor=work.task.actor)
    imports.complete_import(instance, actor=work.task.actor)


def build_planned_spec(hypervisor_id, machine, arguments):
    """Return the definition that the rows will describe. The rows are rolled back."""
    with session.begin_nested() as savepoint:
        definition = build_spec(imports.create_instance(hypervisor_id, machine, arguments))
        savepoint.rollback()
    session.expire_all()
    return definition
