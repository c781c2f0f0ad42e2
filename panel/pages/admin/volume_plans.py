"""Volume plans: the sizes of volumes and their prices, in classes."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import page_can
from panel.core.db import session
from panel.schemas.volumes import VolumePlanGroupIn, VolumePlanGroupPatch, VolumePlanIn, VolumePlanPatch
from panel.services import volume_plans
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say
from panel.web.paging import Page

bp = Blueprint("admin_volume_plans", __name__, url_prefix="/admin/volume-plans")
READ, WRITE = "admin:catalog:read", "admin:catalog:write"
PLAN_FIELDS = ("name", "size", "position", "enabled")
CLASS_FIELDS = ("name", "display_name", "position", "enabled")


@bp.get("")
@page_can(READ)
def index():
    search = request.args.get("search", "")[:255]
    page = Page(volume_plans.shown(search))
    context = {"filtered": bool(search), "classes": classes(), "in_use": volume_plans.users(page.rows)}
    return render("admin/volume_plans/index.html", "rows", page=page, **context)


def classes():
    return session.scalars(volume_plans.groups()).all()


@bp.get("/new")
@page_can(WRITE)
def new():
    known = {"enabled": True, "position": 0, "price": 0, "volume_plan_group_id": request.args.get("class")}
    return plan_page(Form(VolumePlanIn, known=known))


@bp.post("/new")
@page_can(WRITE)
def create():
    form = Form(VolumePlanIn)
    if form.submit(add):
        say(f"The volume plan {form.result.name} is added.")
        return go(url_for(".index"))
    return plan_page(form)


def add(volume_plan_group_id, **values):
    return volume_plans.create(volume_plans.group(volume_plan_group_id, "volume_plan_group_id"), **values)


@bp.get("/<plan_id>")
@page_can(READ)
def edit(plan_id):
    plan = volume_plans.get(plan_id)
    known = {name: getattr(plan, name) for name in PLAN_FIELDS}
    return plan_page(Form(VolumePlanPatch, known={**known, "price": f"{plan.price.normalize():f}"}), plan)


@bp.post("/<plan_id>")
@page_can(WRITE)
def update(plan_id):
    plan, form = volume_plans.get(plan_id), Form(VolumePlanPatch)
    if form.submit(lambda **data: volume_plans.update(plan, **data)):
        say(f"The volume plan {plan.name} is changed. Volumes keep the size they were made with.")
        return go(url_for(".index"))
    return plan_page(form, volume_plans.get(plan_id))


def plan_page(form, plan=None):
    offered = [(each.id, each.display_name) for each in classes()]
    context = {"form": form, "plan": plan, "classes": offered}
    return render("admin/volume_plans/form.html", "form", status=form.status, **context)


@bp.post("/<plan_id>/<any(on, off):way>")
@page_can(WRITE)
def switch(plan_id, way):
    plan = volume_plans.update(volume_plans.get(plan_id), enabled=way == "on")
    words = "can be chosen" if plan.enabled else "cannot be chosen any more"
    return did(f"The volume plan {plan.name} {words}.", url_for(".index"))


@bp.post("/<plan_id>/delete")
@page_can(WRITE)
def delete(plan_id):
    plan = volume_plans.get(plan_id)
    volume_plans.delete(plan)
    return did(f"The volume plan {plan.name} is removed.", url_for(".index"))


# --- classes


@bp.get("/class/new")
@page_can(WRITE)
def new_class():
    return class_page(Form(VolumePlanGroupIn, known={"enabled": True, "position": 0}))


@bp.post("/class/new")
@page_can(WRITE)
def create_class():
    form = Form(VolumePlanGroupIn)
    if form.submit(lambda **data: volume_plans.create_group(**data)):
        say(f"The class {form.result.display_name} is added. Add plans to it next.")
        return go(url_for(".index"))
    return class_page(form)


@bp.get("/class/<group_id>")
@page_can(READ)
def edit_class(group_id):
    found = volume_plans.group(group_id)
    return class_page(Form(VolumePlanGroupPatch, known={name: getattr(found, name) for name in CLASS_FIELDS}), found)


@bp.post("/class/<group_id>")
@page_can(WRITE)
def update_class(group_id):
    found, form = volume_plans.group(group_id), Form(VolumePlanGroupPatch)
    if form.submit(lambda **data: volume_plans.update_group(found, **data)):
        say(f"The class {found.display_name} is changed.")
        return go(url_for(".index"))
    return class_page(form, volume_plans.group(group_id))


def class_page(form, found=None):
    return render("admin/volume_plans/class.html", "form", status=form.status, form=form, found=found)


@bp.post("/class/<group_id>/delete")
@page_can(WRITE)
def delete_class(group_id):
    found = volume_plans.group(group_id)
    volume_plans.delete_group(found)
    return did(f"The class {found.display_name} is removed.", url_for(".index"))
