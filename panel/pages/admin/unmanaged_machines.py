"""Unmanaged and missing machines of a hypervisor, with import, removal and repair."""

from flask import Blueprint, request, url_for
from sqlalchemy.orm import contains_eager

from panel.auth.browser_session import get_current_actor, require_page_permission
from panel.core.db import session
from panel.core.errors import Invalid
from panel.core.messages import join_messages
from panel.models import Plan
from panel.schemas.base import Text
from panel.schemas.unmanaged_machines import AdoptionIn
from panel.services import accounts, catalog, hypervisors, imports, instances, unmanaged_machines
from panel.web.forms import Form
from panel.web.htmx import build_action_response, redirect_to, render
from panel.web.translation import gettext as _
from panel.workflows import reachability

bp = Blueprint("admin_orphans", __name__, url_prefix="/admin")
READ_PERMISSION, WRITE_PERMISSION = "admin:hypervisors:read", "admin:hypervisors:write"


class ImportForm(AdoptionIn):
    """AdoptionIn with the owner's email address instead of an id."""

    owner = Text(required=True, minimum=1)


@bp.get("/hypervisors/<hypervisor_id>/orphans")
@require_page_permission(READ_PERMISSION)
def index(hypervisor_id):
    hypervisor = hypervisors.get(hypervisor_id)
    context = {"missing": unmanaged_machines.list_missing_instances(hypervisor), "condition": hypervisors.get_condition}
    context["descriptions"] = imports.get_discovered_machines(hypervisor)
    context["import_errors"] = {
        machine_id: join_messages(machine.get("obstacles", ()))
        for machine_id, machine in context["descriptions"].items()
    }
    return render("admin/hypervisors/unmanaged_machines.html", "rows", hypervisor=hypervisor, **context)


@bp.post("/hypervisors/<hypervisor_id>/orphans/discover")
@require_page_permission(WRITE_PERMISSION)
def discover(hypervisor_id):
    hypervisor = hypervisors.get(hypervisor_id)
    unmanaged_machines.discover(hypervisor, actor=get_current_actor())
    message = _("Refresh of %(name)s requested.", name=hypervisor.name)
    return build_action_response(message, url_for(".index", hypervisor_id=hypervisor.id), "info")


@bp.post("/hypervisors/<hypervisor_id>/orphans/<machine_id>/remove")
@require_page_permission(WRITE_PERMISSION)
def remove(hypervisor_id, machine_id):
    """Remove the machine. Requires its name, because its memory is lost. Its disks stay."""
    hypervisor = hypervisors.get(hypervisor_id)
    task = unmanaged_machines.remove(
        hypervisor, machine_id, name=request.form.get("typed", ""), actor=get_current_actor()
    )
    return redirect_to(url_for("admin_tasks.show", task_id=task.id))


@bp.get("/hypervisors/<hypervisor_id>/orphans/<machine_id>/import")
@require_page_permission(WRITE_PERMISSION)
def choose(hypervisor_id, machine_id):
    hypervisor = hypervisors.get(hypervisor_id)
    machine = get_machine(hypervisor, machine_id)
    addresses = [ip for nic in machine["nics"] for ip in nic["addresses"] if imports.find_subnet(hypervisor, ip)]
    return form_page(hypervisor, machine, Form(ImportForm, initial={"display_name": machine["name"], "ips": addresses}))


@bp.post("/hypervisors/<hypervisor_id>/orphans/<machine_id>/import")
@require_page_permission(WRITE_PERMISSION)
def adopt(hypervisor_id, machine_id):
    hypervisor = hypervisors.get(hypervisor_id)
    machine = get_machine(hypervisor, machine_id)
    form = Form(ImportForm)

    def request_import(owner, **chosen):
        reachability.check_node(hypervisor)
        return imports.import_machine(
            hypervisor, machine["name"], owner=get_customer(owner), actor=get_current_actor(), **chosen
        )

    if form.submit(request_import):
        task, _instance = form.result
        return redirect_to(url_for("admin_tasks.show", task_id=task.id))
    return form_page(hypervisor, machine, form)


def get_machine(hypervisor, machine_id):
    """Return the machine as the latest discovery recorded it."""
    return imports.get_machine(hypervisor, unmanaged_machines.get_machine(hypervisor, machine_id)["name"])


def get_customer(email):
    customer = accounts.find_by_email(email)
    if customer is None:
        raise Invalid(_("Customer not found."), owner=_("No account has this email address."))
    return customer


def form_page(hypervisor, machine, form):
    plans = session.scalars(catalog.select_plans(hypervisor.group).options(contains_eager(Plan.group))).all()
    context = {"hypervisor": hypervisor, "machine": machine, "form": form, "too_small": imports.plan_error}
    return render("admin/hypervisors/import.html", "form", status=form.status, plans=plans, **context)


@bp.post("/instances/<instance_id>/repair")
@require_page_permission("admin:instances:write")
def repair(instance_id):
    task = unmanaged_machines.repair(instances.get(instance_id), actor=get_current_actor())
    return redirect_to(url_for("admin_tasks.show", task_id=task.id))
