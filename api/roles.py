"""The roles of operators."""

from marshmallow import fields

from api import kit
from panel.auth import permissions
from panel.core.errors import NotFound
from panel.schemas.base import Schema, describe
from panel.services import operators

admin = kit.Admin("role", __name__, description="Roles of operators")


class OperatorRoleOut(Schema):
    id = fields.String(**describe("The name, because roles have no other id.", "support"))
    name = fields.String(**describe("Name, as in `POST /api/v1/user/{account_id}/promote`.", "support"))
    permissions = fields.List(
        fields.String(),
        **describe("What operators with this role are permitted to do.", ["admin:instances:read"]),
    )
    operators = fields.Integer(**describe("Number of operators with this role.", 2))


@admin.get(
    "/roles",
    op="list",
    can="admin:operators:read",
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(OperatorRoleOut),
)
def listing():
    """List the roles of operators, with the widest one first.

    The roles and their permissions are the same in every installation. Give one with
    `POST /api/v1/user/{account_id}/promote`.
    """
    return kit.paginate_list(list_roles())


@admin.get("/role/<role_name>", op="get", can="admin:operators:read", out=OperatorRoleOut)
def show(role_name):
    """Get a role of operators.

    Returns 404 if there is no role with this name.
    """
    role = next((role for role in list_roles() if role["name"] == role_name), None)
    if role is None:
        raise NotFound("There is no role with this name.")
    return role


def list_roles():
    counts = operators.count_by_role()
    return [
        {"id": name, "name": name, "permissions": sorted(granted), "operators": counts[name]}
        for name, granted in permissions.OPERATOR_ROLES.items()
    ]
