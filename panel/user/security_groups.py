"""Security groups: rules, and the instances that they hold for."""

from flask import Blueprint, request, url_for

from panel.auth.browser import actor, may, page_can, viewer
from panel.db import session
from panel.forms import Form
from panel.htmx import did, go, render, say
from panel.paging import Page
from panel.schemas.security_groups import Members, SecurityGroupIn, SecurityGroupPatch, SecurityRuleIn
from panel.services import ip_sets, security_groups

bp = Blueprint("security_groups", __name__, url_prefix="/security-groups")
VIEW, MANAGE, DELETE = "security_groups.view", "security_groups.manage", "security_groups.delete"
MOST = 500
"""How many instances the form offers to add."""
USUAL = {"direction": "ingress", "protocol": "tcp", "ip_version": "ipv4"}


def mine(group_id):
    return security_groups.owned(group_id, viewer())


@bp.get("")
@page_can(VIEW)
def index():
    page = Page(security_groups.listing(viewer(), search=request.args.get("search", "")[:255]))
    security_groups.weigh(page.rows, viewer())
    return render("user/security_groups/index.html", "rows", page=page)


@bp.get("/new")
@page_can(MANAGE)
def new():
    return render("user/security_groups/form.html", form=Form(SecurityGroupIn), group=None)


@bp.post("/new")
@page_can(MANAGE)
def create():
    form = Form(SecurityGroupIn)
    if form.submit(lambda **data: security_groups.create(viewer(), **data)):
        say(f"The group {form.result.name} is made. Add rules, then instances.")
        return go(url_for(".show", group_id=form.result.id))
    return render("user/security_groups/form.html", "form", status=form.status, form=form, group=None)


@bp.get("/<group_id>")
@page_can(VIEW)
def show(group_id):
    return shown(group_id, Form(SecurityRuleIn, known=USUAL), "live")


def shown(group_id, form, block, **more):
    group = security_groups.get(group_id, viewer())
    seen, sets = may("instances.view"), ip_sets.listing(viewer())
    found = {
        "group": group,
        "form": form,
        "rules": security_groups.rules(group),
        "inside": session.scalars(security_groups.instances(group, viewer())).all() if seen else None,
        "others": session.scalars(security_groups.others(group, viewer()).limit(MOST)).all() if seen else [],
        "group_choices": [(each.id, each.name) for each in session.scalars(security_groups.listing(viewer()))],
        "set_choices": [(each.id, f"{each.name} ({each.ip_version})") for each in session.scalars(sets)],
        "no": no_change(group),
    }
    return render("user/security_groups/show.html", block, status=form.status, **found, **more)


def no_change(group):
    """Why the viewer cannot change the group, or None."""
    if group.is_global:
        return "This group belongs to the platform."
    return None if may(MANAGE) else "You may look at security groups, not change them."


@bp.get("/<group_id>/edit")
@page_can(VIEW)
def edit(group_id):
    group = security_groups.get(group_id, viewer())
    return render("user/security_groups/form.html", form=Form(SecurityGroupPatch, known=group), group=group)


@bp.post("/<group_id>/edit")
@page_can(MANAGE)
def change(group_id):
    group, form = mine(group_id), Form(SecurityGroupPatch)
    if form.submit(lambda **data: security_groups.update(group, **data)):
        say("The group is changed.")
        return go(url_for(".show", group_id=group_id))
    return render("user/security_groups/form.html", "form", status=form.status, form=form, group=mine(group_id))


@bp.post("/<group_id>/delete")
@page_can(DELETE)
def delete(group_id):
    group = mine(group_id)
    name = group.name
    security_groups.delete(group, actor=actor())
    say(f"The group {name} is removed.")
    return go(url_for(".index"))


@bp.post("/<group_id>/rules")
@page_can(MANAGE)
def add_rule(group_id):
    group, form = mine(group_id), Form(SecurityRuleIn)
    if form.submit(lambda **data: security_groups.add_rule(group, viewer(), actor=actor(), **data)):
        return did("The rule is added.", url_for(".show", group_id=group_id))
    return shown(group_id, form, "rule")


@bp.post("/<group_id>/rule/<rule_id>/delete")
@page_can(MANAGE)
def remove_rule(group_id, rule_id):
    security_groups.remove_rule(mine(group_id), rule_id, actor=actor())
    return did("The rule is removed.", url_for(".show", group_id=group_id))


@bp.post("/<group_id>/attach")
@page_can(MANAGE)
def attach(group_id):
    return move(group_id, security_groups.attach, "The instances are in the group.")


@bp.post("/<group_id>/detach")
@page_can(MANAGE)
def detach(group_id):
    return move(group_id, security_groups.detach, "The instance is not in the group any more.")


def move(group_id, way, sentence):
    group, form = security_groups.get(group_id, viewer()), Form(Members)
    moved = form.submit(lambda instance_ids: way(group, instance_ids, viewer(), actor=actor()))
    back = request.form.get("back", "")
    address = url_for("instances.tab", instance_id=back, tab="network") if back else url_for(".show", group_id=group_id)
    if not request.form.getlist("instance_ids"):
        return did("Choose an instance first.", address, "warning")
    return did(sentence if moved else " ".join(form.errors.values()), address, "success" if moved else "danger")
