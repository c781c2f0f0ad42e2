"""Plans: sizes of machines and their prices."""

from typing import Any

from flask import Blueprint, request, url_for

from panel.auth.browser_session import require_page_permission
from panel.core.db import session
from panel.schemas.plans import PlanIn, PlanPatch
from panel.services import catalog
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("admin_plans", __name__, url_prefix="/admin/plans")
NAVIGATION = NavigationEntry(
    "catalog", "Plans", "admin_plans.index", icon="package", permission="admin:catalog:read", position=10
)
SEARCH_RESULTS = (
    SearchResults("plan", "Plans", icon="package", url=lambda row_id: url_for("admin_plans.edit", plan_id=row_id)),
)
READ_PERMISSION, WRITE_PERMISSION = "admin:catalog:read", "admin:catalog:write"
PLAN_DEFAULTS: dict[str, Any] = {
    "enabled": True,
    "position": 0,
    "bandwidth": 0,
    "port_speed": 0,
    "ipv4": 1,
    "ipv6": 1,
    "price": 0,
}
PLAN_DEFAULTS |= {"ipv6_prefixes": 0, "private_ipv4": 0, "overage": "none"}


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    filters = {"search": request.args.get("search", "")[:255], "plan_group_id": request.args.get("group")}
    page = Page(catalog.list_all_plans(**filters))
    in_use = catalog.count_plan_users(page.rows)
    context = {"filtered": any(filters.values()), "groups": list_group_options(), "in_use": in_use}
    return render("admin/plans/index.html", "rows", page=page, **context)


@bp.get("/new")
@require_page_permission(WRITE_PERMISSION)
def new():
    return form_page(Form(PlanIn, initial={**PLAN_DEFAULTS, "plan_group_id": request.args.get("group")}))


@bp.post("/new")
@require_page_permission(WRITE_PERMISSION)
def create():
    form = Form(PlanIn)
    if form.submit(create_in_group):
        flash_message(_("Plan %(name)s added.", name=form.result.name))
        return redirect_to(url_for(".index"))
    return form_page(form)


def create_in_group(plan_group_id, **values):
    return catalog.create_plan(catalog.get_plan_group(plan_group_id, "plan_group_id"), **values)


@bp.get("/<plan_id>")
@require_page_permission(READ_PERMISSION)
def edit(plan_id):
    plan = catalog.get_plan(plan_id)
    initial = {name: getattr(plan, name) for name in PlanPatch().fields}
    return form_page(Form(PlanPatch, initial={**initial, "price": f"{plan.price.normalize():f}"}), plan)


@bp.post("/<plan_id>")
@require_page_permission(WRITE_PERMISSION)
def update(plan_id):
    plan = catalog.get_plan(plan_id)
    form = Form(PlanPatch)
    if form.submit(lambda **data: catalog.update_plan(plan, **data)):
        flash_message(_("Plan %(name)s saved. Existing instances are not affected.", name=plan.name))
        return redirect_to(url_for(".index"))
    return form_page(form, plan)


def list_group_options():
    return session.execute(catalog.select_plan_group_names()).all()


def form_page(form, plan=None):
    return render(
        "admin/plans/form.html", "form", status=form.status, form=form, plan=plan, groups=list_group_options()
    )


@bp.post("/<plan_id>/on")
@require_page_permission(WRITE_PERMISSION)
def turn_on(plan_id):
    return set_enabled(plan_id, True)


@bp.post("/<plan_id>/off")
@require_page_permission(WRITE_PERMISSION)
def turn_off(plan_id):
    return set_enabled(plan_id, False)


def set_enabled(plan_id, on):
    plan = catalog.update_plan(catalog.get_plan(plan_id), enabled=on)
    message = _("Plan %(name)s turned on.", name=plan.name)
    if not plan.enabled:
        message = _("Plan %(name)s turned off.", name=plan.name)
    return build_action_response(message, url_for(".index"))


@bp.post("/<plan_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete(plan_id):
    plan = catalog.get_plan(plan_id)
    catalog.delete_plan(plan)
    return build_action_response(_("Plan %(name)s removed.", name=plan.name), url_for(".index"))
