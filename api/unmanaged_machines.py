"""Unmanaged VMs, and instances whose VM is missing."""

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

    A worker looks for VMs without an instance and for instances without a VM.
    """
    kit.set_message("Comparison requested.")
    return {"task_id": unmanaged_machines.discover(hypervisors.get(hypervisor_id), actor=kit.get_current_actor()).id}


@hypervisor_routes.get(
    "/hypervisor/<hypervisor_id>/orphan/discoveries/latest",
    op="latest_discovery",
    can=READ_PERMISSION,
    out=DiscoveryOut,
)
def show_latest(hypervisor_id):
    """Get the latest comparison.

    Returns 404 if none was requested yet.
    """
    return describe_discovery(unmanaged_machines.get_discovery(hypervisors.get(hypervisor_id)))


@hypervisor_routes.get(
    "/hypervisor/<hypervisor_id>/orphan/discoveries/<task_id>", op="discovery", can=READ_PERMISSION, out=DiscoveryOut
)
def show(hypervisor_id, task_id):
    """Get a comparison.

    `unknown` and `missing` are complete once its status is `completed`. Returns 404 if the hypervisor has no such
    comparison.
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
    """Import an unmanaged VM as an instance.

    A worker defines the VM as an instance with the selected plan. The data on its disks, the names of its disk files
    and its MAC address are kept; media are ejected. The VM must be off (`not_stopped`) and found by a comparison
    (`not_discovered`). A VM with features that instances cannot have is refused (`not_adoptable`); the comparison lists
    them in `obstacles`. If the import fails, the VM is left unchanged.
    """
    owner = get_or_422(accounts.get, body.pop("user_id"), "user_id")
    hypervisor = hypervisors.get(hypervisor_id)
    reachability.check_node(hypervisor)
    task, instance_id = imports.import_machine(
        hypervisor, domain_name, owner=owner, actor=kit.get_current_actor(), **body
    )
    kit.set_message("Import requested.")
    return {"task_id": task.id, "instance_id": instance_id}


@hypervisor_routes.post(
    "/hypervisor/<hypervisor_id>/orphan/<machine_id>/remove",
    op="remove_orphan",
    can=WRITE_PERMISSION,
    body=Typed,
    out=Asked,
)
def remove(body, hypervisor_id, machine_id):
    """Delete an unmanaged VM from its hypervisor.

    Send its `name` as confirmation. Its disks stay on the host.
    """
    kit.set_message("Deletion of the VM requested.")
    return {
        "task_id": unmanaged_machines.remove(
            hypervisors.get(hypervisor_id), machine_id, actor=kit.get_current_actor(), **body
        ).id
    }


@instance_routes.post("/instance/<instance_id>/repair", op="repair", can="admin:instances:write", out=Asked)
def repair(instance_id):
    """Define the missing VM of an instance again.

    For an instance whose hypervisor lost its definition but still has its disks. The instance is off afterwards.
    """
    kit.set_message("New definition of the VM requested.")
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
    """Return a VM with its disks and NICs. Comparisons of older versions recorded only id and name."""
    machine = imports.load_description(machine)
    unknown = dict.fromkeys(("power", "cpu_cores", "memory_mb", "tpm", "secure_boot"))
    devices = {key: [SimpleNamespace(**device) for device in machine.get(key, ())] for key in ("disks", "nics")}
    return SimpleNamespace(**{**unknown, "obstacles": [], **machine, **devices})
