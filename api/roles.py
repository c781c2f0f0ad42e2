"""The roles of operators."""

from api import kit
from panel.auth.operator_roles import find_role, list_roles
from panel.core.errors import NotFound
from panel.schemas.operator_roles import OperatorRoleIn, OperatorRoleOut, OperatorRolePatch
from panel.services import operator_roles

admin = kit.Admin("role", __name__, description="Roles of operators")
READ_PERMISSION, WRITE_PERMISSION = "admin:operators:read", "admin:operators:write"
PATH = "/role/<role_name>"


@admin.get(
    "/roles",
    op="list",
    can=READ_PERMISSION,
    query=kit.PageQuery,
    out=kit.build_admin_page_schema(OperatorRoleOut),
)
def listing():
    """List the roles of operators: the built-in ones, with the widest one first, and then others by name.

    The built-in roles are the same in every installation. Give a role with `POST /api/v1/user/{account_id}/promote`.
    """
    return kit.paginate_list(list_roles())


@admin.post("/roles", op="create", can=WRITE_PERMISSION, body=OperatorRoleIn, out=OperatorRoleOut)
def create(body):
    """Create a role of operators.

    A role permits to see everything and to change what you choose. To change operators and tokens remains with `full`,
    because these give and take the access of others. Returns 422 under `name` or `permissions`.
    """
    kit.set_message("Role created.")
    return find_role(operator_roles.create(**body).name)


@admin.get(PATH, op="get", can=READ_PERMISSION, out=OperatorRoleOut)
def show(role_name):
    """Get a role of operators.

    Returns 404 if there is no role with this name.
    """
    role = find_role(role_name)
    if role is None:
        raise NotFound(operator_roles.NO_SUCH_ROLE_MESSAGE)
    return role


@admin.patch(PATH, op="update", can=WRITE_PERMISSION, body=OperatorRolePatch, out=OperatorRoleOut)
def update(body, role_name):
    """Update a role of operators.

    Only the fields you send are changed. The change applies to all operators with the role from their next request on.
    Returns 409 `built_in_role` for a built-in role.
    """
    kit.set_message("Role updated.")
    return find_role(operator_roles.update(operator_roles.get(role_name), **body).name)


@admin.delete(PATH, op="delete", can=WRITE_PERMISSION)
def delete(role_name):
    """Delete a role of operators.

    Returns 409 `role_in_use` if an operator has it, and `built_in_role` for a built-in role.
    """
    operator_roles.delete(operator_roles.get(role_name))
    kit.set_message("Role deleted.")
