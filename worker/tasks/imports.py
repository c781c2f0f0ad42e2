"""Looking at machines that the panel did not make, and taking them over."""

from contextlib import suppress

from panel.core import clock
from panel.core.db import session
from panel.services import imports
from panel.services.instances import state_reports
from worker.engine.registry import task_handler
from worker.nodes.base import GiB, Missing, NodeError, Refused
from worker.sync import node_sync
from worker.tasks.machine_spec import build_spec


def iter_described(node, strangers, earlier):
    """What each of the strangers is. A guest that is off tells no addresses: those that it told last are kept."""
    answering = node.ping_agents([each["id"] for each in strangers]) if strangers else {}
    for stranger in strangers:
        with suppress(Missing):
            found = node.describe(stranger["id"])
            told = find_addresses(node, found.id) if answering.get(found.id) else None
            if told is None:
                told = {nic["mac"]: nic["addresses"] for nic in earlier.get(found.id, {}).get("nics", ())}
            yield to_dict(found, told)


def find_addresses(node, machine_id):
    try:
        return node.agent_addresses(machine_id)
    except NodeError:  # it hangs, or the machine was turned off meanwhile
        return None


def to_dict(found, told):
    """The machine as it lies in a task and is checked by services."""
    return {
        "id": found.id,
        "name": found.name,
        "power": str(found.power),
        "cpu_cores": found.cpu_cores,
        "memory_mb": found.memory_mb,
        "disks": [
            {
                "device": disk.device,
                "storage": disk.pool,
                "name": disk.name,
                "size": -(-disk.size // GiB),
                "fault": disk.fault,
            }
            for disk in found.disks
        ],
        "nics": [
            {"mac": nic.mac, "network": nic.network, "addresses": list(told.get(nic.mac, ()))} for nic in found.nics
        ],
        "tpm": found.tpm,
        "secure_boot": found.secure_boot,
        "faults": list(found.faults),
    }


@task_handler(imports.IMPORT_TASK_KIND)
def import_machine(work):
    """The rows are made twice: first to see whether they can be and what they define, then, after the node has the
    machine as they say, to stay. Whatever fails in between, the node gives the machine back as it was."""
    chosen, hypervisor_id = work.task.arguments, work.task.resource_id
    work.step("Looking at the machine", 10)
    found = work.node.describe(chosen["machine_id"])
    if found.name != chosen["machine_name"]:
        raise Refused("The machine has another name by now. Look at the hypervisor again.", f"it is {found.name}")
    known = to_dict(found, {})
    wanted = plan_spec(hypervisor_id, known, chosen)
    work.undo("give_back", found.id)
    work.step("Defining the machine", 50)
    work.node.adopt(wanted)
    work.step("Making its rows", 90)
    row = node_sync.lock_hypervisor(hypervisor_id)
    instance = imports.create_instance(hypervisor_id, known, chosen)
    row.strangers = [stranger for stranger in row.strangers if stranger["id"] != found.id]
    state_reports.report_power(instance, "off", at=clock.now(), actor=work.task.actor)
    imports.on_imported(instance, actor=work.task.actor)


def plan_spec(hypervisor_id, known, chosen):
    """The definition that the rows will stand for. Nothing of them stays."""
    with session.begin_nested() as trial:
        definition = build_spec(imports.create_instance(hypervisor_id, known, chosen))
        trial.rollback()
    session.expire_all()
    return definition
