"""Plan groups: plans of one kind, location_options in selected locations."""

from flask import Blueprint, url_for
from sqlalchemy.orm import selectinload

from panel.auth.browser_session import require_page_permission
from panel.core.db import session
from panel.models import PlanGroup
from panel.schemas.plans import PlanGroupIn, PlanGroupPatch
from panel.services import catalog, hypervisors
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("admin_plan_groups", __name__, url_prefix="/admin/plan-groups")
NAVIGATION = NavigationEntry(
    "catalog", "Plan groups", "admin_plan_groups.index", icon="stack-2", permission="admin:catalog:read", position=20
)
READ_PERMISSION, WRITE_PERMISSION = "admin:catalog:read", "admin:catalog:write"


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    page = Page(catalog.list_all_plan_groups().options(selectinload(PlanGroup.plans)))
    return render("admin/plan_groups/index.html", "rows", page=page)


@bp.get("/new")
@require_page_permission(WRITE_PERMISSION)
def new():
    return form_page(Form(PlanGroupIn, initial={"enabled": True, "position": 0}))


@bp.post("/new")
@require_page_permission(WRITE_PERMISSION)
def create():
    form = Form(PlanGroupIn)
    if form.submit(lambda **data: catalog.create_plan_group(**resolve_locations(data))):
        flash_message(_("Plan group %(name)s added. Now add plans to it.", name=form.result.display_name))
        return redirect_to(url_for(".index"))
    return form_page(form)


@bp.get("/<plan_group_id>")
@require_page_permission(READ_PERMISSION)
def edit(plan_group_id):
    group = catalog.get_plan_group(plan_group_id)
    initial = {name: getattr(group, name) for name in ("name", "display_name", "position", "enabled")}
    initial["hypervisor_groups"] = [location.id for location in group.groups]
    return form_page(Form(PlanGroupPatch, initial=initial), group)


@bp.post("/<plan_group_id>")
@require_page_permission(WRITE_PERMISSION)
def update(plan_group_id):
    group = catalog.get_plan_group(plan_group_id)
    form = Form(PlanGroupPatch)
    if form.submit(lambda **data: catalog.update_plan_group(group, **resolve_locations(data))):
        flash_message(_("Plan group %(name)s saved.", name=group.display_name))
        return redirect_to(url_for(".index"))
    return form_page(form, group)


def resolve_locations(data):
    if "hypervisor_groups" in data:
        data["hypervisor_groups"] = hypervisors.get_groups(data["hypervisor_groups"])
    return data


def form_page(form, group=None):
    location_options = session.execute(hypervisors.select_group_names()).all()
    return render(
        "admin/plan_groups/form.html",
        "form",
        status=form.status,
        form=form,
        group=group,
        location_options=location_options,
    )


@bp.post("/<plan_group_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete(plan_group_id):
    group = catalog.get_plan_group(plan_group_id)
    catalog.delete_plan_group(group)
    return build_action_response(_("Plan group %(name)s removed.", name=group.display_name), url_for(".index"))
