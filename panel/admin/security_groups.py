"""Everybody's security groups, and the platform's."""

from flask import Blueprint, request, url_for

from panel.auth.browser import actor, page_can, refusal
from panel.db import session
from panel.forms import Form
from panel.htmx import did, go, render, say
from panel.paging import Page
from panel.schemas.base import Text
from panel.schemas.security_groups import Members, SecurityGroupIn, SecurityGroupPatch, SecurityRuleIn
from panel.services import ip_sets, owners, security_groups

bp = Blueprint("admin_security_groups", __name__, url_prefix="/admin/security-groups")
READ, WRITE = "admin:security_groups:read", "admin:security_groups:write"
MOST = 500
"""How many instances the form offers to add."""
USUAL = {"direction": "ingress", "protocol": "tcp", "ip_version": "ipv4"}


class Owned(SecurityGroupIn):
    owner = Text(load_default=None)


@bp.get("")
@page_can(READ)
def index():
    search = request.args.get("search", "")[:255]
    page = Page(security_groups.listing(search=search))
    security_groups.weigh(page.rows)
    emails = owners.emails(page.rows)
    return render("admin/security_groups/index.html", "rows", page=page, filtered=bool(search), emails=emails)


@bp.get("/new")
@page_can(WRITE)
def new():
    return form_page(Form(Owned))


@bp.post("/new")
@page_can(WRITE)
def create():
    form = Form(Owned)
    if form.submit(lambda owner, **data: security_groups.create(owners.named(owner), **data)):
        say(f"The group {form.result.name} is made. Add rules, then instances.")
        return go(url_for(".show", group_id=form.result.id))
    return form_page(form)


def form_page(form, group=None):
    context = {"form": form, "group": group, "owned": group is None}
    return render("user/security_groups/form.html", "form", status=form.status, **context)


@bp.get("/<group_id>")
@page_can(READ)
def show(group_id):
    return shown(group_id, Form(SecurityRuleIn, known=USUAL), "live")


def shown(group_id, form, block):
    """Rules may refer to what is the owner's and the platform's; the platform's own only to the latter."""
    group = security_groups.get(group_id)
    owner = owners.of(group)
    groups, sets = (session.scalars(found.listing(owner)).all() for found in (security_groups, ip_sets))
    context = {
        "group": group,
        "form": form,
        "rules": security_groups.rules(group),
        "inside": session.scalars(security_groups.instances(group)).all(),
        "others": session.scalars(security_groups.others(group, owner).limit(MOST)).all() if owner else [],
        "group_choices": [(each.id, each.name) for each in groups if owner or each.is_global],
        "set_choices": [(each.id, f"{each.name} ({each.ip_version})") for each in sets if owner or each.is_global],
        "no": refusal(WRITE),
        "owner": owner,
    }
    return render("user/security_groups/show.html", block, status=form.status, **context)


@bp.get("/<group_id>/edit")
@page_can(READ)
def edit(group_id):
    group = security_groups.get(group_id)
    return form_page(Form(SecurityGroupPatch, known=group), group)


@bp.post("/<group_id>/edit")
@page_can(WRITE)
def change(group_id):
    group, form = security_groups.get(group_id), Form(SecurityGroupPatch)
    if form.submit(lambda **data: security_groups.update(group, **data)):
        say("The group is changed.")
        return go(url_for(".show", group_id=group_id))
    return form_page(form, security_groups.get(group_id))


@bp.post("/<group_id>/delete")
@page_can(WRITE)
def delete(group_id):
    group = security_groups.get(group_id)
    name = group.name
    security_groups.delete(group, actor=actor())
    say(f"The group {name} is removed.")
    return go(url_for(".index"))


@bp.post("/<group_id>/rules")
@page_can(WRITE)
def add_rule(group_id):
    group, form = security_groups.get(group_id), Form(SecurityRuleIn)
    if form.submit(lambda **data: security_groups.add_rule(group, actor=actor(), **data)):
        return did("The rule is added.", url_for(".show", group_id=group_id))
    return shown(group_id, form, "rule")


@bp.post("/<group_id>/rule/<rule_id>/delete")
@page_can(WRITE)
def remove_rule(group_id, rule_id):
    security_groups.remove_rule(security_groups.get(group_id), rule_id, actor=actor())
    return did("The rule is removed.", url_for(".show", group_id=group_id))


@bp.post("/<group_id>/attach")
@page_can(WRITE)
def attach(group_id):
    return move(group_id, security_groups.attach, "The instances are in the group.")


@bp.post("/<group_id>/detach")
@page_can(WRITE)
def detach(group_id):
    return move(group_id, security_groups.detach, "The instance is not in the group any more.")


def move(group_id, way, sentence):
    group, form = security_groups.get(group_id), Form(Members)
    moved = form.submit(lambda instance_ids: way(group, instance_ids, actor=actor()))
    back, here = request.form.get("back", ""), url_for(".show", group_id=group_id)
    address = url_for("admin_instances.tab", instance_id=back, tab="network") if back else here
    if not request.form.getlist("instance_ids"):
        return did("Choose an instance first.", address, "warning")
    return did(sentence if moved else " ".join(form.errors.values()), address, "success" if moved else "danger")
