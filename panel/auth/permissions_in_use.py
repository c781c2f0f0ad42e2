"""The permissions, scopes and families that a view of this panel requires; forms offer only these.

The API accepts all families of the interface (IDT-22), but some have no views here.
"""

from flask import current_app

from panel.auth import permissions


def list_view_requirements():
    """Yield (permission, scope) of every view; either may be None."""
    for view in current_app.view_functions.values():
        requirement = getattr(view, "requirement", None)
        yield (
            requirement.permission if requirement else getattr(view, "permission", None),
            requirement.scope if requirement else None,
        )


def list_used_permissions():
    """Return the customers' permissions that a view requires, and `<family>.view` for each of their families."""
    required = {permission for permission, _ in list_view_requirements()}.intersection(permissions.MEMBER_PERMISSIONS)
    return required | {f"{name.partition('.')[0]}.view" for name in required}.intersection(
        permissions.MEMBER_PERMISSIONS
    )


def list_used_scopes():
    """Return the scopes that an operation of the user API requires."""
    return {scope for _, scope in list_view_requirements()}.intersection(permissions.USER_SCOPES)


def list_used_families():
    """Return the families of the used permissions and scopes, in the order of the scope families."""
    families = {scope.partition(":")[0] for scope in list_used_scopes()}
    families |= {name.partition(".")[0] for name in list_used_permissions()}
    return [family for family in permissions.PERMISSION_FAMILIES if family in families]
