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
    "team.manage": message("Invite and remove members, and edit roles within the limits of one's own role."),
    "api_tokens.manage": message("Create API tokens that act as oneself."),
    "billing.view": message("View charges, credit and usage."),
}
PERMISSION_EXAMPLE = {
    f"{family}.{verb}": f"{does}. {words}."
    for family, words in SCOPE_FAMILIES.items()
    for verb, does in VERB_DESCRIPTIONS.items()
} | SPECIAL_PERMISSIONS
"""Every permission that a role may have, with its description."""
REACH_DESCRIPTION = "`all` of the account's resources, those of `projects`, or `chosen` ones."


class PermissionOut(Schema):
    name = fields.String(**describe("What roles and refusals call it.", "instances.power"))
    family = fields.String(**describe("The kind of resource it is for.", "instances"))
    verb = fields.String(**describe("What may be done.", "power"))
    description = fields.String(**describe("The same in words.", "Start, stop and restart instances."))
    held = fields.Boolean(**describe("Whether whoever asks holds it, and so may give it to others.", True))


def name_field(**options):
    return Name(maximum=64, **options, **describe("What the team calls it, unique in the account.", "On call"))


def permissions_field(**options):
    permission = fields.String(
        validate=validate.OneOf(PERMISSION_EXAMPLE, error=message("{input} is not a permission."))
    )
    return fields.List(
        permission,
        validate=validate.Length(max=len(PERMISSION_EXAMPLE)),
        **options,
        **describe("What its members may do; `GET /api/team/permissions` lists all.", ["instances.view"]),
    )


def description_field():
    return Text(allow_none=True, **describe("A note.", "Who is woken at night"))


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
    name = fields.String(**describe("What the team calls it.", "On call"))
    description = fields.String(allow_none=True, **describe("A note.", "Who is woken at night"))
    permissions = fields.List(fields.String(), **describe("What its members may do.", ["instances.view"]))
    members = fields.Integer(**describe("How many people have it, invited ones among them.", 2))
    created_at = Time(**describe("When it was made.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


def ids_field(subject):
    return fields.List(Text(maximum=36), validate=validate.Length(max=1000), **describe(subject, [EXAMPLE_ID]))


class Reach(In):
    """Which resources a member reaches."""

    reach = fields.String(validate=validate.OneOf(MEMBER_REACHES), **describe(REACH_DESCRIPTION, "chosen"))
    project_ids = ids_field("The projects, where the reach is `projects`.")
    resource_ids = ids_field("Instances, chosen one by one; with the reach `projects` those beside the projects.")

    @validates_schema
    def validate_chosen(self, data, **_):
        for field, reaches in (("project_ids", ("projects",)), ("resource_ids", ("projects", "chosen"))):
            if data.get(field) and data.get("reach") not in reaches:
                raise ValidationError(
                    message("Only counts where reach is {reaches}.", reaches=" or ".join(reaches)), field
                )


class Invitation(Reach):
    email = Email(required=True, **describe("Where the invitation is sent to.", "grace@example.com"))
    role_id = Text(maximum=36, required=True, **describe("What the person may do.", EXAMPLE_ID))
    reach = fields.String(
        load_default="all", validate=validate.OneOf(MEMBER_REACHES), **describe(REACH_DESCRIPTION, "chosen")
    )


class MemberPatch(Reach):
    """A new role, a new reach, or both. A reach replaces the previous projects and instances."""

    role_id = Text(maximum=36, **describe("What the person may do.", EXAMPLE_ID))


class MemberOut(Out):
    id = fields.String(**describe("Member id.", EXAMPLE_ID))
    email = fields.String(**describe("The person's address.", "grace@example.com"))
    name = fields.String(
        allow_none=True, **describe("The person's name; null until the invitation is accepted.", "Grace")
    )
    status = fields.String(
        validate=validate.OneOf(("invited", "expired", "active", "suspended")),
        **describe(
            "`invited`, `expired` (the invitation was not accepted in time), `active` or `suspended`.", "active"
        ),
    )
    role_id = fields.String(**describe("What the person may do.", EXAMPLE_ID))
    role_name = fields.String(**describe("What the team calls that.", "On call"))
    reach = fields.String(**describe(REACH_DESCRIPTION, "chosen"))
    project_ids = fields.List(fields.String(), **describe("The projects, where the reach is `projects`.", []))
    resource_ids = fields.List(
        fields.String(), **describe("Instances that were chosen one by one, or that the person made.", [EXAMPLE_ID])
    )
    two_factor_enabled = fields.Boolean(**describe("Whether codes of an authenticator are asked for.", True))
    last_login_at = Time(allow_none=True, **describe("When the person last signed in.", "2026-01-02T03:04:05.678Z"))
    invited_at = Time(**describe("When the last invitation was sent.", "2026-01-02T03:04:05.678Z"))
