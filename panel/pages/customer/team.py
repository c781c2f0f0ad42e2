"""The team: who works on the account's resources, and with which role."""

from flask import Blueprint, request, url_for
from sqlalchemy import select

from panel.auth import permissions_in_use
from panel.auth.browser_session import page_can, viewer
from panel.core.db import session
from panel.models import Account, Instance, Project
from panel.pages.customer import BILLED_FAMILIES
from panel.schemas.constants import FAMILIES
from panel.schemas.team import SPECIAL, VERBS, Invitation, MemberPatch, RoleIn, RolePatch
from panel.services import invitations, team, usage
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say
from panel.web.paging import Page

bp = Blueprint("team", __name__, url_prefix="/team")
VIEW, MANAGE = "account.view", "team.manage"
PRESETS = {
    "Administrator": ("Everything except the team, billing and API tokens.", lambda name: name not in OWNERS_OWN),
    "Operator": ("See, start, stop and open instances.", lambda name: name in OPERATING),
    "Read only": ("See everything, change nothing.", lambda name: name.endswith(".view") and name != "billing.view"),
}
"""Roles that every team can use at once: the description, and which of the permissions in use each has."""
OWNERS_OWN = ("team.manage", "billing.view", "api_tokens.manage")
OPERATING = ("instances.view", "instances.power", "instances.console")
PRESET = "preset:"
"""How the choice of a role names a preset that the team has not used yet."""
REACHES = (
    ("all", "Everything", "All resources of the account, those that come later too."),
    ("projects", "Projects", "What is in the projects below, now and later."),
    ("chosen", "Single instances", "The instances below, and those that the person makes."),
)


@bp.get("")
@page_can(VIEW)
def index():
    page = Page(team.listing(viewer(), search=request.args.get("search", "")[:255]))
    found = {"page": page, "roles": all_roles(), "presets": PRESETS, "owner": session.get(Account, viewer().id)}
    return render("user/team/index.html", "rows", **found)


def all_roles():
    return team.weigh(session.scalars(team.roles(viewer())).all())


@bp.get("/invite")
@page_can(MANAGE)
def new():
    return invite_page(Form(Invitation, known={"reach": viewer().reach}))


@bp.post("/invite")
@page_can(MANAGE)
def invite():
    form = Form(Invitation)
    if form.submit(lambda role_id, **data: invitations.invite(viewer(), role_id=role_named(role_id), **data)):
        say(f"An invitation is on its way to {form.result.email}.")
        return go(url_for(".index"))
    return invite_page(form, "form")


def invite_page(form, block=None):
    found = choices()
    found["roles"] += unused_presets()
    return render("user/team/invite.html", block, status=form.status, form=form, **found)


def choices():
    """What whoever asks may give: roles, with the reason where one is too much, and what they reach themselves."""
    access = viewer()
    instances = select(Instance.id, Instance.display_name).where(access.owns(Instance)).order_by(Instance.display_name)
    projects = select(Project.id, Project.name).where(access.owns(Project)).order_by(Project.name)
    roles = [(role.id, role.name, too_much(role.permissions)) for role in session.scalars(team.roles(access))]
    reaches = [(word, *words, word in team.GIVES[access.reach]) for word, *words in REACHES]
    found = {"instances": session.execute(instances).all(), "projects": session.execute(projects).all()}
    return {"roles": roles, "reaches": reaches, **found}


def unused_presets():
    """The presets as choices of a role, without those that the team has a role of that name for."""
    names = {role.name for role in session.scalars(team.roles(viewer()))}
    return [(f"{PRESET}{name}", name, too_much(preset(name))) for name in PRESETS if name not in names]


def preset(name):
    """The permissions of a preset, among those that something in this panel asks for."""
    _, has = PRESETS[name]
    return sorted(filter(has, permissions_in_use.used_permissions()))


def role_named(role_id):
    """The id of the chosen role. A preset becomes a role of the team when it is used for the first time."""
    name = role_id.removeprefix(PRESET)
    if name == role_id or name not in PRESETS:
        return role_id
    return team.ensure_role(viewer(), name=name, description=PRESETS[name][0], permissions=preset(name)).id


def too_much(allowed):
    return None if all(viewer().holds(each) for each in allowed) else "permits more than your own role"


@bp.get("/members/<member_id>")
@page_can(VIEW)
def member(member_id):
    found = team.get(member_id, viewer())
    return member_page(found, Form(MemberPatch, known=found))


@bp.post("/members/<member_id>")
@page_can(MANAGE)
def change(member_id):
    access = viewer()
    found = team.to_change(member_id, access)
    form = Form(MemberPatch)
    if form.submit(lambda **data: team.update(access, found, **data)):
        say(f"{found.email} is changed. It counts from now on.")
        return go(url_for(".index"))
    return member_page(team.get(member_id, access), form, "form")


def member_page(found, form, block=None):
    return render("user/team/member.html", block, status=form.status, form=form, member=found, **choices())


@bp.post("/members/<member_id>/resend")
@page_can(MANAGE)
def resend(member_id):
    found = invitations.resend(viewer(), team.to_change(member_id, viewer()))
    return did(f"A new invitation is on its way to {found.email}.", url_for(".index"))


@bp.post("/members/<member_id>/remove")
@page_can(MANAGE)
def remove(member_id):
    found = team.to_change(member_id, viewer())
    email = found.email
    team.remove(found)
    say(f"{email} is no longer in the team.")
    return go(url_for(".index"))


@bp.get("/roles/new")
@page_can(MANAGE)
def new_role():
    name = request.args.get("preset")
    known = {}
    if name in PRESETS:
        known = {"name": name, "description": PRESETS[name][0], "permissions": preset(name)}
    return role_page(Form(RoleIn, known=known))


@bp.post("/roles/new")
@page_can(MANAGE)
def create_role():
    form = Form(RoleIn)
    if form.submit(lambda **data: team.create_role(viewer(), **data)):
        say(f"The role {form.result.name} is added.")
        return go(url_for(".index"))
    return role_page(form, block="form")


@bp.get("/roles/<role_id>")
@page_can(VIEW)
def role(role_id):
    found = team.role(role_id, viewer())
    return role_page(Form(RolePatch, known=found), found)


@bp.post("/roles/<role_id>")
@page_can(MANAGE)
def change_role(role_id):
    found = team.role(role_id, viewer())
    form = Form(RolePatch)
    if form.submit(lambda **data: team.update_role(viewer(), found, **data)):
        say(f"The role {found.name} is changed. It counts from now on.")
        return go(url_for(".index"))
    return role_page(form, team.role(role_id, viewer()), "form")


def role_page(form, found=None, block=None):
    closed = () if usage.is_open(viewer()) else BILLED_FAMILIES
    used = {name for name in permissions_in_use.used_permissions() if name.partition(".")[0] not in closed}
    families = [family for family in permissions_in_use.used_families() if family not in closed]
    words = {"used": used, "families": {family: FAMILIES[family] for family in families}}
    words |= {"verbs": VERBS, "special": {name: text for name, text in SPECIAL.items() if name in used}}
    words |= {"presets": PRESETS, "holds": viewer().holds}
    return render("user/team/role.html", block, status=form.status, form=form, role=found, **words)


@bp.post("/roles/<role_id>/delete")
@page_can(MANAGE)
def delete_role(role_id):
    found = team.role(role_id, viewer())
    team.delete_role(viewer(), found)
    say(f"The role {found.name} is removed.")
    return go(url_for(".index"))
