"""Teams in the API: roles, members and permissions."""

from marshmallow import Schema, ValidationError, fields, validate, validates_schema

from panel.core.messages import message
from panel.schemas.accounts import Email
from panel.schemas.base import In, Name, Out, Patch, Text, Time, describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.schemas.constants import MEMBER_REACHES, SCOPE_FAMILIES

VERB_DESCRIPTIONS = {"view": message("See"), "manage": message("Add and change"), "delete": message("Remove")}
SPECIAL_PERMISSIONS = {
    "instances.create": message("Create instances."),
    "instances.power": message("Start, stop and restart instances."),
    "instances.console": message("Open the console and the shell of instances."),
    "instances.backups": message("Create and delete backups of instances."),
    "instances.restore": message("Restore instances from backups."),
    "team.manage": message("Invite and remove members, and edit roles within the limits of their own role."),
    "api_tokens.manage": message("Create API tokens for themselves."),
    "billing.view": message("View charges, credit and usage."),
}
PERMISSION_EXAMPLE = {
    f"{family}.{verb}": f"{does}. {words}."
    for family, words in SCOPE_FAMILIES.items()
    for verb, does in VERB_DESCRIPTIONS.items()
} | SPECIAL_PERMISSIONS
"""Every permission that a role may have, with its description."""
REACH_DESCRIPTION = "Resources that the member can access: `all`, those in `projects`, or `chosen` ones."


class PermissionOut(Schema):
    name = fields.String(**describe("Name of the permission.", "instances.power"))
    family = fields.String(**describe("Resource family.", "instances"))
    verb = fields.String(**describe("Allowed action.", "power"))
    description = fields.String(**describe("Description.", "Start, stop and restart instances."))
    held = fields.Boolean(**describe("Whether you have this permission and can grant it to others.", True))


def name_field(**options):
    return Name(maximum=64, **options, **describe("Name of the role, unique in the account.", "On call"))


def permissions_field(**options):
    permission = fields.String(
        validate=validate.OneOf(PERMISSION_EXAMPLE, error=message("{input} is not a permission."))
    )
    return fields.List(
        permission,
        validate=validate.Length(max=len(PERMISSION_EXAMPLE)),
        **options,
        **describe("Permissions of the role; `GET /api/team/permissions` lists all.", ["instances.view"]),
    )


def description_field():
    return Text(allow_none=True, **describe("Description.", "On-call engineers"))


class RoleIn(In):
    name = name_field(required=True)
    description = description_field()
    permissions = permissions_field(required=True)


class RolePatch(Patch):
    name = name_field()
    description = description_field()
    permissions = permissions_field()


class RoleOut(Out):
    id = fields.String(**describe("Role id.", EXAMPLE_ID))
    name = fields.String(**describe("Name of the role.", "On call"))
    description = fields.String(allow_none=True, **describe("Description.", "On-call engineers"))
    permissions = fields.List(fields.String(), **describe("Permissions of the role.", ["instances.view"]))
    members = fields.Integer(**describe("Number of members with this role, including invited ones.", 2))
    created_at = Time(**describe("When it was created.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


def ids_field(subject):
    return fields.List(Text(maximum=36), validate=validate.Length(max=1000), **describe(subject, [EXAMPLE_ID]))


class Reach(In):
    """Which resources a member can access."""

    reach = fields.String(validate=validate.OneOf(MEMBER_REACHES), **describe(REACH_DESCRIPTION, "chosen"))
    project_ids = ids_field("Project ids, if `reach` is `projects`.")
    resource_ids = ids_field(
        "Ids of instances, micro VMs and their images, and volumes, if `reach` is `chosen`, or in addition to the"
        " projects if it is `projects`."
    )

    @validates_schema
    def validate_chosen(self, data, **_):
        for field, reaches in (("project_ids", ("projects",)), ("resource_ids", ("projects", "chosen"))):
            if data.get(field) and data.get("reach") not in reaches:
                raise ValidationError(
                    message("Only allowed if reach is {reaches}.", reaches=" or ".join(reaches)), field
                )


class Invitation(Reach):
    email = Email(required=True, **describe("Email address of the invited user.", "grace@example.com"))
    role_id = Text(maximum=36, required=True, **describe("Role id.", EXAMPLE_ID))
    reach = fields.String(
        load_default="all", validate=validate.OneOf(MEMBER_REACHES), **describe(REACH_DESCRIPTION, "chosen")
    )


class MemberPatch(Reach):
    """A new role, a new reach, or both. A reach replaces the previous projects and instances."""

    role_id = Text(maximum=36, **describe("Role id.", EXAMPLE_ID))


class MemberOut(Out):
    id = fields.String(**describe("Member id.", EXAMPLE_ID))
    email = fields.String(**describe("Email address.", "grace@example.com"))
    name = fields.String(allow_none=True, **describe("Name; null until the invitation is accepted.", "Grace"))
    status = fields.String(
        validate=validate.OneOf(("invited", "expired", "active", "suspended")),
        **describe("`invited`, `expired` (the invitation has expired), `active` or `suspended`.", "active"),
    )
    role_id = fields.String(**describe("Role id.", EXAMPLE_ID))
    role_name = fields.String(**describe("Name of the role.", "On call"))
    reach = fields.String(**describe(REACH_DESCRIPTION, "chosen"))
    project_ids = fields.List(fields.String(), **describe("Project ids, if `reach` is `projects`.", []))
    resource_ids = fields.List(
        fields.String(),
        **describe(
            "Ids of instances, micro VMs and their images, and volumes that were chosen or created by the member.",
            [EXAMPLE_ID],
        ),
    )
    two_factor_enabled = fields.Boolean(**describe("Whether two-factor authentication is enabled.", True))
    last_login_at = Time(allow_none=True, **describe("When the user last signed in.", "2026-01-02T03:04:05.678Z"))
    invited_at = Time(**describe("When the last invitation was sent.", "2026-01-02T03:04:05.678Z"))
