"""Unmanaged machines, and instances whose machine is missing."""

from types import SimpleNamespace

from api import kit
from api.hypervisors import admin as hypervisor_routes
from api.instances import admin as instance_routes
from api.instances.admin_instances import get_or_422
from panel.schemas.unmanaged_machines import AdoptIn, AdoptingOut, Asked, DiscoveryOut, Typed
from panel.services import accounts, hypervisors, imports, instances, unmanaged_machines
from panel.workflows import reachability

READ_PERMISSION, WRITE_PERMISSION = "admin:hypervisors:read", "admin:hypervisors:write"


@hypervisor_routes.post(
    "/hypervisor/<hypervisor_id>/orphan/discover", op="discover_orphans", can=WRITE_PERMISSION, out=Asked
)
def discover(hypervisor_id):
    """Compare a hypervisor with the panel.

    A worker looks for machines that no instance knows and for instances whose machine is missing.
    """
    kit.set_message("The hypervisor is being looked at.")
    return {"task_id": unmanaged_machines.discover(hypervisors.get(hypervisor_id), actor=kit.get_current_actor()).id}


@hypervisor_routes.get(
    "/hypervisor/<hypervisor_id>/orphan/discoveries/latest",
    op="latest_discovery",
    can=READ_PERMISSION,
    out=DiscoveryOut,
)
def show_latest(hypervisor_id):
    """Show the latest comparison.

    404 when none was asked for yet.
    """
    return describe_discovery(unmanaged_machines.get_discovery(hypervisors.get(hypervisor_id)))


@hypervisor_routes.get(
    "/hypervisor/<hypervisor_id>/orphan/discoveries/<task_id>", op="discovery", can=READ_PERMISSION, out=DiscoveryOut
)
def show(hypervisor_id, task_id):
    """Show a comparison.

    `unknown` and `missing` are complete once its status is `completed`. 404 when there is no such comparison of this
    hypervisor.
    """
    return describe_discovery(unmanaged_machines.get_discovery(hypervisors.get(hypervisor_id), task_id))


@hypervisor_routes.post(
    "/hypervisor/<hypervisor_id>/orphan/import/<domain_name>",
    op="import_orphan",
    can=WRITE_PERMISSION,
    body=AdoptIn,
    out=AdoptingOut,
)
def import_machine(body, hypervisor_id, domain_name):
    """Make an unknown machine an instance.

    A worker defines it as an instance of that plan. What is on its disks stays, so does its network card's hardware
    address, and so does the name of its disks' files. It has to be off (`not_stopped`) and to have been found by a
    discovery (`not_discovered`). What instances cannot have is refused (`not_adoptable`); the discovery lists it as
    `obstacles`. Media are taken out of its drives. Whatever fails, the machine is left as it was.
    """
    owner = get_or_422(accounts.get, body.pop("user_id"), "user_id")
    hypervisor = hypervisors.get(hypervisor_id)
    reachability.check_node(hypervisor)
    task, instance_id = imports.import_machine(
        hypervisor, domain_name, owner=owner, actor=kit.get_current_actor(), **body
    )
    kit.set_message("The machine is being imported.")
    return {"task_id": task.id, "instance_id": instance_id}


@hypervisor_routes.post(
    "/hypervisor/<hypervisor_id>/orphan/<machine_id>/remove",
    op="remove_orphan",
    can=WRITE_PERMISSION,
    body=Typed,
    out=Asked,
)
def remove(body, hypervisor_id, machine_id):
    """Remove an unknown machine from its hypervisor.

    Its `name` has to be sent to confirm. Its disks stay on the host.
    """
    kit.set_message("The machine is being removed.")
    return {
        "task_id": unmanaged_machines.remove(
            hypervisors.get(hypervisor_id), machine_id, actor=kit.get_current_actor(), **body
        ).id
    }


@instance_routes.post("/instance/<instance_id>/repair", op="repair", can="admin:instances:write", out=Asked)
def repair(instance_id):
    """Define a missing machine anew.

    For an instance whose hypervisor lost its definition and still has its disks. It is off afterwards.
    """
    kit.set_message("The machine is being defined anew.")
    return {"task_id": unmanaged_machines.repair(instances.get(instance_id), actor=kit.get_current_actor()).id}


def describe_discovery(task):
    return {
        "task_id": task.id,
        "status": task.status,
        "error": task.error,
        "finished_at": task.finished_at,
        "unknown": [describe_machine(machine) for machine in task.arguments.get("unknown", [])],
        "missing": [SimpleNamespace(**machine) for machine in task.arguments.get("missing", [])],
    }


def describe_machine(machine):
    """Return a machine with its disks and NICs. Discoveries of older versions recorded only id and name."""
    machine = imports.load_description(machine)
    unknown = dict.fromkeys(("power", "cpu_cores", "memory_mb", "tpm", "secure_boot"))
    devices = {key: [SimpleNamespace(**device) for device in machine.get(key, ())] for key in ("disks", "nics")}
    return SimpleNamespace(**{**unknown, "obstacles": [], **machine, **devices})
