"""What a hypervisor and the panel do not agree about, and mending it."""

from flask import Blueprint, request, url_for

from panel.auth.browser import actor, page_can
from panel.htmx import did, go, render
from panel.services import hypervisors, instances, orphans

bp = Blueprint("admin_orphans", __name__, url_prefix="/admin")
READ, WRITE = "admin:hypervisors:read", "admin:hypervisors:write"


@bp.get("/hypervisors/<hypervisor_id>/orphans")
@page_can(READ)
def index(hypervisor_id):
    hypervisor = hypervisors.weigh([hypervisors.get(hypervisor_id)])[0]
    found = {"missing": orphans.missing(hypervisor), "condition": hypervisors.condition}
    return render("admin/hypervisors/orphans.html", "rows", hypervisor=hypervisor, **found)


@bp.post("/hypervisors/<hypervisor_id>/orphans/discover")
@page_can(WRITE)
def discover(hypervisor_id):
    hypervisor = hypervisors.get(hypervisor_id)
    orphans.discover(hypervisor, actor=actor())
    return did(f"{hypervisor.name} is being looked at.", url_for(".index", hypervisor_id=hypervisor.id))


@bp.post("/hypervisors/<hypervisor_id>/orphans/<machine_id>/remove")
@page_can(WRITE)
def remove(hypervisor_id, machine_id):
    """The name has to be typed: what the machine holds in memory is lost. Its disks stay."""
    hypervisor = hypervisors.get(hypervisor_id)
    task = orphans.remove(hypervisor, machine_id, name=request.form.get("name", ""), actor=actor())
    return go(url_for("admin_tasks.show", task_id=task.id))


@bp.post("/instances/<instance_id>/repair")
@page_can("admin:instances:write")
def repair(instance_id):
    task = orphans.repair(instances.get(instance_id), actor=actor())
    return go(url_for("admin_tasks.show", task_id=task.id))
