"""All roles of operators, the built-in ones and others, with their permissions and the number of operators."""

from typing import Any

from panel.auth import permissions
from panel.core.db import session
from panel.services import operator_roles, operators


def list_roles() -> list[dict[str, Any]]:
    """Return the built-in roles, the widest one first, and then the others by name."""
    counts = operators.count_by_role()
    built_in: list[dict[str, Any]] = [
        {"name": name, "description": "", "built_in": True, "permissions": sorted(granted)}
        for name, granted in permissions.OPERATOR_ROLES.items()
    ]
    others: list[dict[str, Any]] = [
        {
            "name": role.name,
            "description": role.description,
            "built_in": False,
            "permissions": sorted({*permissions.OPERATOR_READ_PERMISSIONS, *role.permissions}),
        }
        for role in session.scalars(operator_roles.listing())
    ]
    return [{**role, "id": role["name"], "operators": counts[role["name"]]} for role in built_in + others]


def find_role(name: str) -> dict[str, Any] | None:
    return next((role for role in list_roles() if role["name"] == name), None)
