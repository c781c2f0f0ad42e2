"""The team: the members, their roles and grants."""

from flask import Blueprint, request, url_for

from panel.auth import permissions_in_use
from panel.auth.browser_session import get_current_access, require_page_permission
from panel.core.db import session
from panel.models import Account, Instance, Microvm, MicrovmImage, Project, Volume
from panel.schemas.constants import SCOPE_FAMILIES
from panel.schemas.team import SPECIAL_PERMISSIONS, VERB_DESCRIPTIONS, Invitation, MemberPatch, RoleIn, RolePatch
from panel.services import invitations, team
from panel.services.search_kinds import contains_text
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, PaletteAction, SearchResults, list_closed_families
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

bp = Blueprint("team", __name__, url_prefix="/team")
NAVIGATION = NavigationEntry("account", "Team", "team.index", icon="users", permission="account.view", position=10)
PALETTE_ACTIONS = (PaletteAction("Invite member", "team.new", icon="user-plus", permission="team.manage", position=70),)
SEARCH_RESULTS = (
    SearchResults("member", "Team", icon="users", url=lambda row: url_for("team.member", member_id=row.id)),
)
VIEW_PERMISSION, MANAGE_PERMISSION = "account.view", "team.manage"
OWNER_ONLY_PERMISSIONS = ("team.manage", "billing.view", "api_tokens.manage")
OPERATOR_PRESET_PERMISSIONS = ("instances.view", "instances.power", "instances.console")
ROLE_PRESETS = {
    "Administrator": (
        lazy_gettext("Everything except the team, billing and API tokens."),
        lambda name: name not in OWNER_ONLY_PERMISSIONS,
    ),
    "Operator": (
        lazy_gettext("View, start, stop and connect to instances."),
        lambda name: name in OPERATOR_PRESET_PERMISSIONS,
    ),
    "Read only": (
        lazy_gettext("View everything, change nothing."),
        lambda name: name.endswith(".view") and name != "billing.view",
    ),
}
"""Preset roles: {name: (description, filter of the permissions in use)}"""
PRESET_PREFIX = "preset:"
"""Prefix of a preset role in the choice of roles, as long as the team has no such role."""
RESOURCE_KINDS = {
    "instances": (Instance, Instance.display_name),
    "microvms": (Microvm, Microvm.name),
    "microvm_images": (MicrovmImage, MicrovmImage.name),
    "volumes": (Volume, Volume.name),
}
MAX_LISTED_RESOURCES = 100
"""How many resources of each kind a form lists. People search for others."""
REACH_OPTIONS = (
    ("all", lazy_gettext("Everything"), lazy_gettext("All current and future resources of the account.")),
    ("projects", lazy_gettext("Projects"), lazy_gettext("Current and future resources in the projects below.")),
    ("chosen", lazy_gettext("Single resources"), lazy_gettext("The resources below, and those the member creates.")),
)


@bp.get("")
@require_page_permission(VIEW_PERMISSION)
def index():
    page = Page(team.listing(get_current_access(), search=request.args.get("search", "")[:255]))
    context = {
        "page": page,
        "roles": list_roles(),
        "presets": ROLE_PRESETS,
        "owner": session.get(Account, get_current_access().id),
    }
    return render("customer/team/index.html", "rows", **context)


def list_roles():
    return session.scalars(team.select_roles(get_current_access())).all()


@bp.get("/invite")
@require_page_permission(MANAGE_PERMISSION)
def new():
    return invite_page(Form(Invitation, initial={"reach": get_current_access().reach}))


@bp.post("/invite")
@require_page_permission(MANAGE_PERMISSION)
def invite():
    form = Form(Invitation)
    if "find" in request.form:
        form.show_again()
    elif form.submit(
        lambda role_id, **data: invitations.invite(get_current_access(), role_id=ensure_role_id(role_id), **data)
    ):
        flash_message(_("Invitation sent to %(email)s.", email=form.result.email))
        return redirect_to(url_for(".index"))
    return invite_page(form, "form")


def invite_page(form, block=None):
    choices = list_grant_choices(form)
    choices["roles"] += list_preset_choices()
    return render("customer/team/invite.html", block, status=form.status, form=form, **choices)


def list_grant_choices(form):
    """Return the roles and reaches that the viewer may grant; roles with more permissions than theirs have a reason."""
    access, search = get_current_access(), request.form.get("resource_search", "")[:255]
    projects = team.select_grantable(access, Project).with_only_columns(Project.id, Project.name)
    choices = {"projects": session.execute(projects.order_by(Project.name, Project.id)).all()}
    chosen, has_more = form.get_chosen("resource_ids"), False
    for kind, (model, name) in RESOURCE_KINDS.items():
        query = team.select_grantable(access, model).with_only_columns(model.id, name).order_by(name, model.id)
        choices[kind], is_limited = list_resources(query, name, search, chosen)
        has_more |= is_limited
    choices |= {"resource_search": search, "has_search": has_more or search, "max_resources": MAX_LISTED_RESOURCES}
    roles = [
        (role.id, role.name, permissions_error(role.permissions)) for role in session.scalars(team.select_roles(access))
    ]
    reaches = [(reach, *texts, reach in team.GRANTABLE_SCOPES[access.reach]) for reach, *texts in REACH_OPTIONS]
    return {"roles": roles, "access_scopes": reaches, **choices}


def list_resources(query, name, search, chosen):
    """Return the first resources with the text in their name, after the chosen ones that are not among them, and
    whether there are more."""
    rows = session.execute(
        (query.where(contains_text(name, search)) if search else query).limit(MAX_LISTED_RESOURCES + 1)
    ).all()
    listed = rows[:MAX_LISTED_RESOURCES]
    missing = chosen.difference(row.id for row in listed)
    others = session.execute(query.where(query.selected_columns.id.in_(missing))).all() if missing else []
    return [*others, *listed], len(rows) > len(listed)


def list_preset_choices():
    """Return the presets as choices of a role, without those whose name is a role of the team."""
    names = {role.name for role in session.scalars(team.select_roles(get_current_access()))}
    return [
        (f"{PRESET_PREFIX}{name}", name, permissions_error(get_preset_permissions(name)))
        for name in ROLE_PRESETS
        if name not in names
    ]


def get_preset_permissions(name):
    """Return the permissions of a preset, limited to those in use."""
    has = ROLE_PRESETS[name][1]
    return sorted(filter(has, permissions_in_use.list_used_permissions()))


def ensure_role_id(role_id):
    """Return the id of the chosen role. Creates the role when a preset is used for the first time."""
    name = role_id.removeprefix(PRESET_PREFIX)
    if name == role_id or name not in ROLE_PRESETS:
        return role_id
    return team.get_or_create_role(
        get_current_access(),
        name=name,
        description=str(ROLE_PRESETS[name][0]),
        permissions=get_preset_permissions(name),
    ).id


def permissions_error(permissions):
    return (
        None
        if all(get_current_access().has_permission(permission) for permission in permissions)
        else _("permits more than your own role")
    )


@bp.get("/members/<member_id>")
@require_page_permission(VIEW_PERMISSION)
def member(member_id):
    row = team.get(member_id, get_current_access())
    return member_page(row, Form(MemberPatch, initial=row))


@bp.post("/members/<member_id>")
@require_page_permission(MANAGE_PERMISSION)
def change(member_id):
    access = get_current_access()
    row = team.get_changeable(member_id, access)
    form = Form(MemberPatch)
    if "find" in request.form:
        form.show_again()
    elif form.submit(lambda **data: team.update(access, row, **data)):
        flash_message(_("Access of %(email)s saved. It applies immediately.", email=row.email))
        return redirect_to(url_for(".index"))
    return member_page(team.get(member_id, access), form, "form")


def member_page(membership, form, block=None):
    return render(
        "customer/team/member.html", block, status=form.status, form=form, member=membership, **list_grant_choices(form)
    )


@bp.post("/members/<member_id>/resend")
@require_page_permission(MANAGE_PERMISSION)
def resend(member_id):
    row = invitations.resend(get_current_access(), team.get_changeable(member_id, get_current_access()))
    return build_action_response(_("New invitation sent to %(email)s.", email=row.email), url_for(".index"))


@bp.post("/members/<member_id>/remove")
@require_page_permission(MANAGE_PERMISSION)
def remove(member_id):
    row = team.get_changeable(member_id, get_current_access())
    email = row.email
    team.remove(row)
    flash_message(_("%(email)s removed from the team.", email=email))
    return redirect_to(url_for(".index"))


@bp.get("/roles/new")
@require_page_permission(MANAGE_PERMISSION)
def new_role():
    name = request.args.get("preset")
    initial = {}
    if name in ROLE_PRESETS:
        initial = {"name": name, "description": ROLE_PRESETS[name][0], "permissions": get_preset_permissions(name)}
    return role_page(Form(RoleIn, initial=initial))


@bp.post("/roles/new")
@require_page_permission(MANAGE_PERMISSION)
def create_role():
    form = Form(RoleIn)
    if form.submit(lambda **data: team.create_role(get_current_access(), **data)):
        flash_message(_("Role %(name)s created.", name=form.result.name))
        return redirect_to(url_for(".index"))
    return role_page(form, block="form")


@bp.get("/roles/<role_id>")
@require_page_permission(VIEW_PERMISSION)
def role(role_id):
    row = team.get_role(role_id, get_current_access())
    return role_page(Form(RolePatch, initial=row), row)


@bp.post("/roles/<role_id>")
@require_page_permission(MANAGE_PERMISSION)
def change_role(role_id):
    row = team.get_role(role_id, get_current_access())
    form = Form(RolePatch)
    if form.submit(lambda **data: team.update_role(get_current_access(), row, **data)):
        flash_message(_("Role %(name)s saved. It applies immediately.", name=row.name))
        return redirect_to(url_for(".index"))
    return role_page(form, team.get_role(role_id, get_current_access()), "form")


def role_page(form, row=None, block=None):
    closed = list_closed_families(get_current_access())
    used = {name for name in permissions_in_use.list_used_permissions() if name.partition(".")[0] not in closed}
    families = [family for family in permissions_in_use.list_used_families() if family not in closed]
    context = {"used": used, "families": {family: SCOPE_FAMILIES[family] for family in families}}
    context |= {
        "verbs": VERB_DESCRIPTIONS,
        "special_permissions": {name: text for name, text in SPECIAL_PERMISSIONS.items() if name in used},
    }
    context |= {"presets": ROLE_PRESETS, "can_grant": get_current_access().has_permission}
    return render("customer/team/role.html", block, status=form.status, form=form, role=row, **context)


@bp.post("/roles/<role_id>/delete")
@require_page_permission(MANAGE_PERMISSION)
def delete_role(role_id):
    row = team.get_role(role_id, get_current_access())
    team.delete_role(get_current_access(), row)
    flash_message(_("Role %(name)s deleted.", name=row.name))
    return redirect_to(url_for(".index"))
