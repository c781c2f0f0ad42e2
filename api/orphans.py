"""Orphans: machines that no instance knows, and instances whose machine is missing."""

from types import SimpleNamespace

from api import kit
from api.hypervisors import admin as nodes
from api.instances import admin as instance_rows
from panel.schemas.orphans import Asked, DiscoveryOut, Typed
from panel.services import hypervisors, instances, orphans

READ, WRITE = "admin:hypervisors:read", "admin:hypervisors:write"


@nodes.post("/hypervisor/<hypervisor_id>/orphan/discover", op="discover_orphans", can=WRITE, out=Asked)
def discover(hypervisor_id):
    """Compare a hypervisor with the panel.

    A worker looks for machines that no instance knows and for instances whose machine is missing.
    """
    kit.say("The hypervisor is being looked at.")
    return {"task_id": orphans.discover(hypervisors.get(hypervisor_id), actor=kit.actor()).id}


@nodes.get("/hypervisor/<hypervisor_id>/orphan/discoveries/latest", op="latest_discovery", can=READ, out=DiscoveryOut)
def latest(hypervisor_id):
    """Show the latest comparison."""
    return shown(orphans.discovery(hypervisors.get(hypervisor_id)))


@nodes.get("/hypervisor/<hypervisor_id>/orphan/discoveries/<task_id>", op="discovery", can=READ, out=DiscoveryOut)
def show(hypervisor_id, task_id):
    """Show a comparison."""
    return shown(orphans.discovery(hypervisors.get(hypervisor_id), task_id))


@nodes.post(
    "/hypervisor/<hypervisor_id>/orphan/<machine_id>/remove", op="remove_orphan", can=WRITE, body=Typed, out=Asked
)
def remove(body, hypervisor_id, machine_id):
    """Remove an unknown machine from its hypervisor.

    Its `name` has to be sent to confirm. Its disks stay on the host.
    """
    kit.say("The machine is being removed.")
    return {"task_id": orphans.remove(hypervisors.get(hypervisor_id), machine_id, actor=kit.actor(), **body).id}


@instance_rows.post("/instance/<instance_id>/repair", op="repair", can="admin:instances:write", out=Asked)
def repair(instance_id):
    """Define a missing machine anew.

    For an instance whose hypervisor lost its definition and still has its disks. It is off afterwards.
    """
    kit.say("The machine is being defined anew.")
    return {"task_id": orphans.repair(instances.get(instance_id), actor=kit.actor()).id}


def shown(task):
    named = lambda word: [SimpleNamespace(**each) for each in task.arguments.get(word, [])]  # noqa: E731
    return {
        "task_id": task.id,
        "status": task.status,
        "error": task.error,
        "finished_at": task.finished_at,
        "unknown": named("unknown"),
        "missing": named("missing"),
    }
