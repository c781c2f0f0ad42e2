"""Volume plans: sizes of volumes and their prices, in classes."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import require_page_permission
from panel.core.db import session
from panel.schemas.volumes import VolumePlanGroupIn, VolumePlanGroupPatch, VolumePlanIn, VolumePlanPatch
from panel.services import volume_plans
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("admin_volume_plans", __name__, url_prefix="/admin/volume-plans")
NAVIGATION = NavigationEntry(
    "catalog", "Volume plans", "admin_volume_plans.index", icon="stack-2", permission="admin:catalog:read", position=30
)
READ_PERMISSION, WRITE_PERMISSION = "admin:catalog:read", "admin:catalog:write"
PLAN_FIELDS = ("name", "size", "position", "enabled")
CLASS_FIELDS = ("name", "display_name", "position", "enabled")


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    search = request.args.get("search", "")[:255]
    page = Page(volume_plans.select_with_groups(search))
    context = {"filtered": bool(search), "plan_classes": list_classes(), "in_use": volume_plans.count_users(page.rows)}
    return render("admin/volume_plans/index.html", "rows", page=page, **context)


def list_classes():
    return session.scalars(volume_plans.select_groups()).all()


@bp.get("/new")
@require_page_permission(WRITE_PERMISSION)
def new():
    initial = {"enabled": True, "position": 0, "price": 0, "volume_plan_group_id": request.args.get("class")}
    return plan_page(Form(VolumePlanIn, initial=initial))


@bp.post("/new")
@require_page_permission(WRITE_PERMISSION)
def create():
    form = Form(VolumePlanIn)
    if form.submit(create_in_class):
        flash_message(_("Volume plan %(name)s added.", name=form.result.name))
        return redirect_to(url_for(".index"))
    return plan_page(form)


def create_in_class(volume_plan_group_id, **values):
    return volume_plans.create(volume_plans.get_group(volume_plan_group_id, "volume_plan_group_id"), **values)


@bp.get("/<plan_id>")
@require_page_permission(READ_PERMISSION)
def edit(plan_id):
    plan = volume_plans.get(plan_id)
    initial = {name: getattr(plan, name) for name in PLAN_FIELDS}
    return plan_page(Form(VolumePlanPatch, initial={**initial, "price": f"{plan.price.normalize():f}"}), plan)


@bp.post("/<plan_id>")
@require_page_permission(WRITE_PERMISSION)
def update(plan_id):
    plan, form = volume_plans.get(plan_id), Form(VolumePlanPatch)
    if form.submit(lambda **data: volume_plans.update(plan, **data)):
        flash_message(_("Volume plan %(name)s saved. Existing volumes are not affected.", name=plan.name))
        return redirect_to(url_for(".index"))
    return plan_page(form, volume_plans.get(plan_id))


def plan_page(form, plan=None):
    class_choices = [(group.id, group.display_name) for group in list_classes()]
    context = {"form": form, "plan": plan, "plan_classes": class_choices}
    return render("admin/volume_plans/form.html", "form", status=form.status, **context)


@bp.post("/<plan_id>/<any(on, off):state>")
@require_page_permission(WRITE_PERMISSION)
def switch(plan_id, state):
    plan = volume_plans.update(volume_plans.get(plan_id), enabled=state == "on")
    message = _("Volume plan %(name)s turned on.", name=plan.name)
    if not plan.enabled:
        message = _("Volume plan %(name)s turned off.", name=plan.name)
    return build_action_response(message, url_for(".index"))


@bp.post("/<plan_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete(plan_id):
    plan = volume_plans.get(plan_id)
    volume_plans.delete(plan)
    return build_action_response(_("Volume plan %(name)s removed.", name=plan.name), url_for(".index"))


# --- classes


@bp.get("/class/new")
@require_page_permission(WRITE_PERMISSION)
def new_class():
    return class_page(Form(VolumePlanGroupIn, initial={"enabled": True, "position": 0}))


@bp.post("/class/new")
@require_page_permission(WRITE_PERMISSION)
def create_class():
    form = Form(VolumePlanGroupIn)
    if form.submit(lambda **data: volume_plans.create_group(**data)):
        flash_message(_("Class %(name)s added. Now add plans to it.", name=form.result.display_name))
        return redirect_to(url_for(".index"))
    return class_page(form)


@bp.get("/class/<group_id>")
@require_page_permission(READ_PERMISSION)
def edit_class(group_id):
    group = volume_plans.get_group(group_id)
    return class_page(Form(VolumePlanGroupPatch, initial={name: getattr(group, name) for name in CLASS_FIELDS}), group)


@bp.post("/class/<group_id>")
@require_page_permission(WRITE_PERMISSION)
def update_class(group_id):
    group, form = volume_plans.get_group(group_id), Form(VolumePlanGroupPatch)
    if form.submit(lambda **data: volume_plans.update_group(group, **data)):
        flash_message(_("Class %(name)s saved.", name=group.display_name))
        return redirect_to(url_for(".index"))
    return class_page(form, volume_plans.get_group(group_id))


def class_page(form, plan_class=None):
    return render("admin/volume_plans/class.html", "form", status=form.status, form=form, plan_class=plan_class)


@bp.post("/class/<group_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete_class(group_id):
    group = volume_plans.get_group(group_id)
    volume_plans.delete_group(group)
    return build_action_response(_("Class %(name)s removed.", name=group.display_name), url_for(".index"))
