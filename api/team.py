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
    """List all permissions that a role can have."""
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
    """List roles, by name."""
    return kit.paginate(team.select_roles(kit.get_current_access()))


@user.post(
    "/team/roles", op="role_create", can=MANAGE_PERMISSION, body=RoleIn, out=kit.build_wrapped_schema("role", RoleOut)
)
def create_role(body):
    """Create a role.

    A role that can change a type of resource can also see it: the `.view` permission is added. Team members can only
    grant permissions that their own role has; otherwise the request returns 403.
    """
    return {"message": "Role created.", "role": team.create_role(kit.get_current_access(), **body)}


@user.get("/team/role/<role_id>", op="role_get", can=VIEW_PERMISSION, out=kit.build_wrapped_schema("role", RoleOut))
def show_role(role_id):
    """Get a role."""
    return {"message": None, "role": team.get_role(role_id, kit.get_current_access())}


@user.patch(
    "/team/role/<role_id>",
    op="role_update",
    can=MANAGE_PERMISSION,
    body=RolePatch,
    out=kit.build_wrapped_schema("role", RoleOut),
)
def update_role(body, role_id):
    """Update a role.

    Takes effect immediately for all members with this role.
    """
    access = kit.get_current_access()
    role = team.update_role(access, team.get_role(role_id, access), **body)
    return {"message": "Role updated.", "role": role}


@user.delete("/team/role/<role_id>", op="role_delete", can=MANAGE_PERMISSION, out=kit.build_result_schema())
def delete_role(role_id):
    """Delete a role.

    Returns 409 `role_in_use` while members have it.
    """
    team.delete_role(kit.get_current_access(), team.get_role(role_id, kit.get_current_access()))
    return {"message": "Role deleted."}


@user.get(
    "/team/subusers", op="members", can=VIEW_PERMISSION, query=kit.PageQuery, out=kit.build_page_schema(MemberOut)
)
def list_members():
    """List team members and open invitations."""
    return kit.paginate(team.listing(kit.get_current_access()))


@user.post(
    "/team/subusers/invite",
    op="invite",
    can=MANAGE_PERMISSION,
    body=Invitation,
    out=kit.build_wrapped_schema("subuser", MemberOut),
)
def invite(body):
    """Invite a user to the team by email.

    The link in the email works once and expires after seven days. The response is the same whether or not the address
    has an account.
    """
    return {"message": "Invitation sent.", "subuser": invitations.invite(kit.get_current_access(), **body)}


@user.post(
    "/team/subuser/<member_id>/resend",
    op="resend",
    can=MANAGE_PERMISSION,
    out=kit.build_wrapped_schema("subuser", MemberOut),
)
def resend(member_id):
    """Send an invitation again with a new link.

    Returns 409 `already_accepted` if the user is already in the team.
    """
    access = kit.get_current_access()
    member = invitations.resend(access, team.get_changeable(member_id, access))
    return {"message": "Invitation sent.", "subuser": member}


@user.patch(
    "/team/subuser/<member_id>/role",
    op="member_update",
    can=MANAGE_PERMISSION,
    body=MemberPatch,
    out=kit.build_wrapped_schema("subuser", MemberOut),
)
def update(body, member_id):
    """Update the role or access of a team member.

    Takes effect immediately. Returns 403 for your own membership and for members with more permissions than you have.
    """
    access = kit.get_current_access()
    member = team.update(access, team.get_changeable(member_id, access), **body)
    return {"message": "Team member updated.", "subuser": member}


@user.delete("/team/subuser/<member_id>", op="member_delete", can=MANAGE_PERMISSION, out=kit.build_result_schema())
def delete(member_id):
    """Remove a team member, or withdraw an invitation.

    The user's sessions and tokens end immediately. Resources that the user created are kept.
    """
    team.remove(team.get_changeable(member_id, kit.get_current_access()))
    return {"message": "Team member removed."}
