"""Plan groups: plans of one kind, offered in some locations."""

from flask import Blueprint, url_for
from sqlalchemy.orm import selectinload

from panel.auth.browser_session import page_can
from panel.core.db import session
from panel.models import PlanGroup
from panel.schemas.plans import PlanGroupIn, PlanGroupPatch
from panel.services import catalog, hypervisors
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say
from panel.web.paging import Page

bp = Blueprint("admin_plan_groups", __name__, url_prefix="/admin/plan-groups")
READ, WRITE = "admin:catalog:read", "admin:catalog:write"


@bp.get("")
@page_can(READ)
def index():
    page = Page(catalog.every_plan_group().options(selectinload(PlanGroup.plans)))
    return render("admin/plan_groups/index.html", "rows", page=page)


@bp.get("/new")
@page_can(WRITE)
def new():
    return form_page(Form(PlanGroupIn, known={"enabled": True, "position": 0}))


@bp.post("/new")
@page_can(WRITE)
def create():
    form = Form(PlanGroupIn)
    if form.submit(lambda **data: catalog.create_plan_group(**resolved(data))):
        say(f"The plan group {form.result.display_name} is added. Add plans to it next.")
        return go(url_for(".index"))
    return form_page(form)


@bp.get("/<plan_group_id>")
@page_can(READ)
def edit(plan_group_id):
    group = catalog.get_plan_group(plan_group_id)
    known = {name: getattr(group, name) for name in ("name", "display_name", "position", "enabled")}
    known["hypervisor_groups"] = [each.id for each in group.groups]
    return form_page(Form(PlanGroupPatch, known=known), group)


@bp.post("/<plan_group_id>")
@page_can(WRITE)
def update(plan_group_id):
    group = catalog.get_plan_group(plan_group_id)
    form = Form(PlanGroupPatch)
    if form.submit(lambda **data: catalog.update_plan_group(group, **resolved(data))):
        say(f"The plan group {group.display_name} is changed.")
        return go(url_for(".index"))
    return form_page(form, group)


def resolved(data):
    if "hypervisor_groups" in data:
        data["hypervisor_groups"] = hypervisors.groups_named(data["hypervisor_groups"])
    return data


def form_page(form, group=None):
    offered = session.execute(hypervisors.group_names()).all()
    return render("admin/plan_groups/form.html", "form", status=form.status, form=form, group=group, offered=offered)


@bp.post("/<plan_group_id>/delete")
@page_can(WRITE)
def delete(plan_group_id):
    group = catalog.get_plan_group(plan_group_id)
    catalog.delete_plan_group(group)
    return did(f"The plan group {group.display_name} is removed.", url_for(".index"))
