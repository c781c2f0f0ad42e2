"""Roles of operators in the admin API."""

from marshmallow import Schema, fields, validate

from panel.core.messages import message
from panel.schemas.base import In, Patch, Text, describe
from panel.schemas.constants import GRANTABLE_OPERATOR_PERMISSIONS, OPERATOR_ROLES

MAX_NAME_LENGTH = 16
NAME = describe("Name of the role, which never changes, as in `POST /api/v1/user/{account_id}/promote`.", "network")
DESCRIPTION = describe("What the role is for.", "Looks after subnets and addresses")
PERMISSIONS = describe(
    "What operators with this role may change: "
    + ", ".join(f"`{permission}`" for permission in GRANTABLE_OPERATOR_PERMISSIONS)
    + ". All operators may see everything.",
    ["admin:subnets:write"],
)
NAME_RULES = [
    validate.Regexp(
        rf"[a-z][a-z0-9_-]{{1,{MAX_NAME_LENGTH - 1}}}\Z",
        error=message(
            "Use 2 to {maximum} lowercase letters, digits, - and _, starting with a letter.", maximum=MAX_NAME_LENGTH
        ),
    ),
    validate.NoneOf((*OPERATOR_ROLES, "new"), error=message("This name is taken.")),
]
PERMISSION_MESSAGE = message("This permission cannot be granted: {input}.")


def build_permissions_field(**options):
    permission = fields.String(validate=validate.OneOf(tuple(GRANTABLE_OPERATOR_PERMISSIONS), error=PERMISSION_MESSAGE))
    return fields.List(
        permission, validate=validate.Length(max=len(GRANTABLE_OPERATOR_PERMISSIONS)), **options, **PERMISSIONS
    )


class OperatorRoleIn(In):
    name = Text(required=True, rules=NAME_RULES, **NAME)
    description = Text(load_default="", **DESCRIPTION)
    permissions = build_permissions_field(required=True)


class OperatorRolePatch(Patch):
    description = Text(**DESCRIPTION)
    permissions = build_permissions_field()


class OperatorRoleOut(Schema):
    id = fields.String(**describe("The name, because roles have no other id.", "support"))
    name = fields.String(**NAME)
    description = fields.String(**DESCRIPTION)
    built_in = fields.Boolean(
        **describe("Whether it is one of `full`, `support` and `read_only`, which never change.", False)
    )
    permissions = fields.List(
        fields.String(),
        **describe("What operators with this role are permitted to do.", ["admin:instances:read"]),
    )
    operators = fields.Integer(**describe("Number of operators with this role.", 2))
