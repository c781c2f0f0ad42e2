"""All customers' instances, and creating one for a customer."""

from flask import Blueprint, abort, request, url_for
from sqlalchemy import select
from sqlalchemy.orm import contains_eager

from panel.auth.browser_session import get_current_actor, require_page_permission
from panel.core.db import session
from panel.core.errors import Conflict, Invalid
from panel.models import Hypervisor, Instance, Plan
from panel.pages.admin import labels
from panel.pages.shared.instances import register
from panel.pages.shared.instances.row_actions import find_search_actions
from panel.schemas.base import Text
from panel.schemas.constants import INSTANCE_STATES
from panel.schemas.instances import AdminInstanceOut, InstanceIn
from panel.services import accounts, catalog, hypervisors, instances, metrics
from panel.services.instances.action_catalog import OPERATOR_BULK_BUTTONS, find_power_action
from panel.web import charts
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, is_script_request, redirect_to, render
from panel.web.instance_search_form import search_or_empty
from panel.web.page_registry import NavigationEntry, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext
from panel.workflows import deploy_dispatch

bp = Blueprint("admin_instances", __name__, url_prefix="/admin/instances")
NAVIGATION = NavigationEntry(
    "resources",
    "Instances",
    "admin_instances.index",
    icon="server",
    permission="admin:instances:read",
    position=10,
    shortcut="i",
)
SEARCH_RESULTS = (
    SearchResults(
        "instance",
        "Instances",
        icon="server",
        url=lambda row_id: url_for("admin_instances.show", instance_id=row_id),
        find_actions=find_search_actions,
    ),
)
register(bp, is_operator_area=True)
READ_PERMISSION, WRITE_PERMISSION = "admin:instances:read", "admin:instances:write"
UNSCHEDULABLE_MESSAGES = {
    "hypervisor_down": lazy_gettext("does not respond"),
    "hypervisor_maintenance": lazy_gettext("in maintenance"),
    "hypervisor_locked": lazy_gettext("locked"),
    "hypervisor_deploy_disabled": lazy_gettext("new placements disabled"),
}
UNCONFIRMED_REASON = "deploy_dispatch_unconfirmed"


class OrderForm(InstanceIn):
    """The fields that the operators' form has beside the customers'."""

    owner = Text(required=True, minimum=1)
    hypervisor_id = Text(maximum=36)
    image_id = Text(maximum=36, load_default=None)
    password = Text(maximum=128, minimum=8, load_default=None)


ORDERS = {"name": Instance.display_name, "size": Instance.ram, "age": Instance.id}


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    state = request.args.get("state")
    filters = {"search": request.args.get("search", "")[:255], "hypervisor_id": request.args.get("node")}
    filters["state"] = state if state in INSTANCE_STATES else None
    query, search_error = search_or_empty(**filters)
    page = Page(query, orders=ORDERS, all_rows=instances.select_list_rows(), is_searched=bool(filters["search"]))
    common = {"sparks": metrics.get_sparklines(page.rows), "spark": charts.build_sparkline}
    common |= {"search_error": search_error, "actions": OPERATOR_BULK_BUTTONS}
    context = common | {
        "filtered": any(filters.values()),
        "states": labels.INSTANCE_STATES.items(),
        "nodes": list_hypervisor_options(),
    }
    return render("admin/instances/index.html", "rows", page=page, **context)


def list_hypervisor_options():
    return session.execute(select(Hypervisor.id, Hypervisor.name).order_by(Hypervisor.name)).all()


@bp.get("/new")
@require_page_permission(WRITE_PERMISSION)
def new():
    return form_page(Form(OrderForm, initial=request.args.to_dict()), request.args.get("location_id"))


@bp.post("/new")
@require_page_permission(WRITE_PERMISSION)
def create():
    """Create an instance. A generated password is shown in the response itself, without a redirect."""
    form = Form(OrderForm)
    if not form.submit(create_order):
        return (
            build_form_error_response(form) if is_script_request() else form_page(form, request.form.get("location_id"))
        )
    instance, task, password = form.result
    if task and not deploy_dispatch.wait_until_dispatched(task):
        return build_unconfirmed_response(instance, task, password)
    if is_script_request():
        return build_created_response(instance, task, password)
    if password:
        return render("admin/instances/created.html", "once", instance=instance, password=password)
    flash_message(_("Instance %(name)s created for %(email)s.", name=instance.name, email=instance.account.email))
    return redirect_to(url_for(".show", instance_id=instance.id))


def create_order(owner, image_id, password, hypervisor_id=None, **values):
    """Return the instance, its deploy task or None, and the generated password or None."""
    account = accounts.find_by_email(owner)
    if account is None:
        raise Invalid(_("Customer not found."), owner=_("No account has this email address."))
    node = get_schedulable(hypervisor_id, values["location_id"]) if hypervisor_id else None
    instance = instances.create(account, actor=get_current_actor(), node=node, **values)
    if image_id is None:
        return instance, None, None
    task, password_set = instances.deploy(instance, image_id=image_id, password=password, actor=get_current_actor())
    return instance, task, password_set


def build_form_error_response(form):
    """Return the form's errors as JSON, for scripts that submit the page's form."""
    message = form.errors.get("") or _("Please correct the highlighted fields.")
    reason = {"reason": form.reason} if form.reason else {}
    return {"success": False, "message": message, **reason, "errors": form.errors}, max(form.status, 400)


def build_created_response(instance, task, password, **extra):
    ids = {"task_id": task.id if task else None, "instance": AdminInstanceOut().dump(instances.get(instance.id))}
    return {"success": True, **ids, **({"password": password} if password else {}), **extra}


def build_unconfirmed_response(instance, task, password):
    """Answer 503 when the start of the deploy was not confirmed. Row and task exist; the task shows the outcome."""
    warning = _(
        "%(hypervisor)s has not confirmed the deployment of %(name)s.",
        hypervisor=instance.hypervisor.name,
        name=instance.display_name,
    )
    if is_script_request():
        return build_created_response(
            instance, task, password, success=False, message=warning, reason=UNCONFIRMED_REASON
        ), 503
    context = {
        "instance": instance,
        "task": task,
        "password": password,
        "unconfirmed_warning": warning,
        "reason": UNCONFIRMED_REASON,
    }
    return render("admin/instances/unconfirmed.html", "once", status=503, **context)


def get_schedulable(hypervisor_id, location_id):
    """Return the requested hypervisor. Raises Invalid with the reason when it is closed (INS-89 to INS-92)."""
    node = hypervisors.get(hypervisor_id, "hypervisor_id")
    if node.group_id != location_id:
        raise Invalid(
            _("The hypervisor is in another location."), hypervisor_id=_("The hypervisor is in another location.")
        )
    if node.unschedulable_reason:
        state = UNSCHEDULABLE_MESSAGES[node.unschedulable_reason]
        sentence = _(
            "%(name)s is not available: %(state)s (%(reason)s). Choose another hypervisor.",
            name=node.name,
            state=state,
            reason=node.unschedulable_reason,
        )
        raise Conflict(sentence, reason=node.unschedulable_reason, hypervisor_id=sentence)
    return node


def form_page(form, location_id):
    groups = session.scalars(hypervisors.select_groups()).all()
    location = next((group for group in groups if group.id == location_id), groups[0] if groups else None)
    return render(
        "admin/instances/new.html",
        "form",
        status=form.status,
        form=form,
        groups=[(group.id, group.display_name) for group in groups],
        location=location,
        nodes=[(node.id, node.name, unschedulable_error(node)) for node in location.hypervisors] if location else [],
        plans=session.scalars(catalog.select_plans(location).options(contains_eager(Plan.group))).all()
        if location
        else [],
        images=session.scalars(catalog.select_images(purpose="general")).all(),
    )


def unschedulable_error(node):
    if node.status == "unknown":
        return _("no report yet")
    return UNSCHEDULABLE_MESSAGES[node.unschedulable_reason] if node.unschedulable_reason else None


@bp.post("/<instance_id>/power/<action>")
@require_page_permission(WRITE_PERMISSION)
def power(instance_id, action):
    power_action = find_power_action(action) or abort(404)
    instance = instances.get(instance_id)
    task = instances.run_power_action(instance, action, actor=get_current_actor(), by_operator=True)
    return build_action_response(power_action.result_message(task), url_for(".show", instance_id=instance.id))


@bp.post("/<instance_id>/<any(suspend, resume):action>")
@require_page_permission(WRITE_PERMISSION)
def suspension(instance_id, action):
    instance = instances.get(instance_id)
    if action == "suspend":
        task = instances.suspend(instance, reason="admin", actor=get_current_actor())
    else:
        task = instances.unsuspend(instance, actor=get_current_actor())
    suspend_action = instances.ACTIONS["suspend" if action == "suspend" else "unsuspend"]
    return build_action_response(suspend_action.result_message(task), url_for(".show", instance_id=instance.id))


@bp.post("/<instance_id>/destroy")
@require_page_permission(WRITE_PERMISSION)
def destroy(instance_id):
    """Destroy the instance. Requires its name, because the data on its disks is lost."""
    instance = instances.get(instance_id)
    if request.form.get("typed", "").strip() != instance.name:
        error_message = _("Type %(name)s to confirm. Nothing was destroyed.", name=instance.name)
        raise Invalid(error_message, typed=error_message)
    task = instances.destroy(instance, actor=get_current_actor(), by_operator=True)
    return redirect_to(url_for("admin_tasks.show", task_id=task.id))
