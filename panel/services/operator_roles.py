"""Roles of operators beside the built-in ones.

Everybody with such a role may see what all operators see. A role adds what they may change, except for operators and
tokens, which give and take the access of others. So only operators with full access can manage roles, and nobody grants
a permission that they do not have.
"""

from collections.abc import Collection
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Select, select

from panel.core.db import refresh_with_lock, session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.core.messages import message
from panel.models import Account, OperatorRole
from panel.schemas.constants import GRANTABLE_OPERATOR_PERMISSIONS, OPERATOR_ROLES
from panel.services.crud import ensure_unique_name, update_fields

NO_SUCH_ROLE_MESSAGE = message("There is no role with this name.")


def listing() -> Select[OperatorRole]:
    """Select the roles that operators have made, by name."""
    return select(OperatorRole).order_by(OperatorRole.name)


def get(name: str) -> OperatorRole:
    """Return the role. Raise Conflict for a built-in one, NotFound for an unknown one."""
    if name in OPERATOR_ROLES:
        raise Conflict(message("Built-in roles cannot be changed."), reason="built_in_role")
    role = session.scalar(select(OperatorRole).where(OperatorRole.name == name))
    if role is None:
        raise NotFound(NO_SUCH_ROLE_MESSAGE)
    return role


def create(*, name: str, permissions: Collection[str], description: str = "") -> OperatorRole:
    if name in OPERATOR_ROLES:
        raise Invalid(message("This name is taken."), name=message("This name is taken."))
    ensure_unique_name(OperatorRole, name)
    role = OperatorRole(name=name, description=description, permissions=list_grantable(permissions))
    session.add(role)
    session.flush()
    return role


def update(role: OperatorRole, **changes: Any) -> OperatorRole:
    """Change the role. It applies to all who have it from the next request on."""
    if "permissions" in changes:
        changes["permissions"] = list_grantable(changes["permissions"])
    update_fields(role, changes)
    forget_cached()
    return role


def delete(role: OperatorRole) -> None:
    """Delete a role that nobody has. The row is locked, so nobody gets it meanwhile."""
    refresh_with_lock(role)
    if session.scalar(select(Account.id).where(Account.operator_role == role.name).limit(1)):
        raise Conflict(message("This role is in use. Give its operators another role first."), reason="role_in_use")
    session.delete(role)
    session.flush()
    forget_cached()


def list_grantable(permissions: Collection[str]) -> list[str]:
    """Return the permissions, sorted. Raise Invalid for one that a role cannot have."""
    for permission in permissions:
        if permission not in GRANTABLE_OPERATOR_PERMISSIONS:
            sentence = message("This permission cannot be granted: {input}.", input=permission)
            raise Invalid(sentence, permissions=sentence)
    return sorted(set(permissions))


def ensure_assignable(name: str) -> None:
    """Raise Invalid unless there is such a role. It is locked, so that it is not deleted meanwhile."""
    if name in OPERATOR_ROLES:
        return
    query = select(OperatorRole.id).where(OperatorRole.name == name).with_for_update(read=True, key_share=True)
    if session.scalar(query) is None:
        raise Invalid(NO_SUCH_ROLE_MESSAGE, role=NO_SUCH_ROLE_MESSAGE)


cache: WeakKeyDictionary = WeakKeyDictionary()
"""For each open transaction, the permissions of roles, so that a page with many buttons queries once."""


def find_permissions(name: str) -> frozenset[str] | None:
    """Return what the role permits beside seeing everything; None if there is no such role."""
    transaction = session().get_transaction() or session().begin()
    cached = cache.setdefault(transaction, {})
    if name not in cached:
        permissions = session.scalar(select(OperatorRole.permissions).where(OperatorRole.name == name))
        cached[name] = None if permissions is None else frozenset(permissions) & GRANTABLE_OPERATOR_PERMISSIONS.keys()
    return cached[name]


def forget_cached() -> None:
    cache.pop(session().get_transaction(), None)
