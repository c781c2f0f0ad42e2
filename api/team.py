"""The team of an account: roles, members, invitations."""

from marshmallow import fields

from api import kit
from panel.schemas.base import describe
from panel.schemas.team import (
    PERMISSION_EXAMPLE,
    Invitation,
    MemberOut,
    MemberPatch,
    PermissionOut,
    RoleIn,
    RoleOut,
    RolePatch,
)
from panel.services import invitations, team

user = kit.User("team", __name__, description="The team")
VIEW_PERMISSION, MANAGE_PERMISSION = "account.view", "team.manage"


@user.get(
    "/team/permissions",
    op="permissions",
    can=VIEW_PERMISSION,
    out=kit.build_result_schema(permissions=fields.List(fields.Nested(PermissionOut), **describe("Every permission."))),
)
def list_permissions():
    """List what a role may permit."""
    access = kit.get_current_access()
    rows = []
    for name, description in PERMISSION_EXAMPLE.items():
        family, _, verb = name.partition(".")
        row = {
            "name": name,
            "family": family,
            "verb": verb,
            "description": description,
            "held": access.has_permission(name),
        }
        rows.append(row)
    return {"message": None, "permissions": rows}


@user.get("/team/roles", op="roles", can=VIEW_PERMISSION, query=kit.PageQuery, out=kit.build_page_schema(RoleOut))
def list_roles():
    """List the roles by name."""
    return kit.paginate(team.select_roles(kit.get_current_access()))


@user.post(
    "/team/roles", op="role_create", can=MANAGE_PERMISSION, body=RoleIn, out=kit.build_wrapped_schema("role", RoleOut)
)
def create_role(body):
    """Add a role.

    Who may do something with a kind of resource also sees it: the `.view` permission is added. Members who
    look after the team can only give what their own role permits: else 403.
    """
    return {"message": "The role is added.", "role": team.create_role(kit.get_current_access(), **body)}


@user.get("/team/role/<role_id>", op="role_get", can=VIEW_PERMISSION, out=kit.build_wrapped_schema("role", RoleOut))
def show_role(role_id):
    """Show a role."""
    return {"message": None, "role": team.get_role(role_id, kit.get_current_access())}


@user.patch(
    "/team/role/<role_id>",
    op="role_update",
    can=MANAGE_PERMISSION,
    body=RolePatch,
    out=kit.build_wrapped_schema("role", RoleOut),
)
def update_role(body, role_id):
    """Change a role.

    It counts at once for everybody who has it.
    """
    access = kit.get_current_access()
    role = team.update_role(access, team.get_role(role_id, access), **body)
    return {"message": "The role is changed.", "role": role}


@user.delete("/team/role/<role_id>", op="role_delete", can=MANAGE_PERMISSION, out=kit.build_result_schema())
def delete_role(role_id):
    """Remove a role.

    409 `role_in_use` while somebody has it.
    """
    team.delete_role(kit.get_current_access(), team.get_role(role_id, kit.get_current_access()))
    return {"message": "The role is removed."}


@user.get(
    "/team/subusers", op="members", can=VIEW_PERMISSION, query=kit.PageQuery, out=kit.build_page_schema(MemberOut)
)
def list_members():
    """List the members and the invited."""
    return kit.paginate(team.listing(kit.get_current_access()))


@user.post(
    "/team/subusers/invite",
    op="invite",
    can=MANAGE_PERMISSION,
    body=Invitation,
    out=kit.build_wrapped_schema("subuser", MemberOut),
)
def invite(body):
    """Invite somebody by mail.

    The link in the mail works once, for seven days. The answer is the same whether or not the address has an account.
    """
    return {"message": "The invitation is on its way.", "subuser": invitations.invite(kit.get_current_access(), **body)}


@user.post(
    "/team/subuser/<member_id>/resend",
    op="resend",
    can=MANAGE_PERMISSION,
    out=kit.build_wrapped_schema("subuser", MemberOut),
)
def resend(member_id):
    """Send the invitation again, with a new link.

    409 `already_accepted` when the person is in the team.
    """
    access = kit.get_current_access()
    member = invitations.resend(access, team.get_changeable(member_id, access))
    return {"message": "The invitation is on its way.", "subuser": member}


@user.patch(
    "/team/subuser/<member_id>/role",
    op="member_update",
    can=MANAGE_PERMISSION,
    body=MemberPatch,
    out=kit.build_wrapped_schema("subuser", MemberOut),
)
def update(body, member_id):
    """Change a member's role or reach.

    It counts at once. Nobody changes their own, or that of somebody who may do more: 403.
    """
    access = kit.get_current_access()
    member = team.update(access, team.get_changeable(member_id, access), **body)
    return {"message": "The member is changed.", "subuser": member}


@user.delete("/team/subuser/<member_id>", op="member_delete", can=MANAGE_PERMISSION, out=kit.build_result_schema())
def delete(member_id):
    """Remove a member, or take an invitation back.

    Sessions and tokens of the person end at once. What the person made stays.
    """
    team.remove(team.get_changeable(member_id, kit.get_current_access()))
    return {"message": "The member is removed."}
