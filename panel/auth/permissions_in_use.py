"""What forms offer of the specification's families: those that an operation or a page of this panel asks for.

The API accepts all 26 families (specification 5.3). A screen that offered them all would promise what does not exist.
"""

from flask import current_app

from panel.auth import permissions


def view_requirements():
    """What the views of this application ask for: pairs of permission and scope, either may be None."""
    for view in current_app.view_functions.values():
        door = getattr(view, "door", None)
        yield door.permission if door else getattr(view, "permission", None), door.scope if door else None


def used_permissions():
    """The permissions of customers that a view asks for. Seeing a family is one where anything else of it is."""
    found = {permission for permission, _ in view_requirements()}.intersection(permissions.MEMBER)
    return found | {f"{name.partition('.')[0]}.view" for name in found}.intersection(permissions.MEMBER)


def used_scopes():
    """The scopes of tokens that an operation of the user API needs."""
    return {scope for _, scope in view_requirements()}.intersection(permissions.USER)


def used_families():
    """The families of permissions and scopes that are in use, in the order of the specification."""
    found = {scope.partition(":")[0] for scope in used_scopes()}
    found |= {name.partition(".")[0] for name in used_permissions()}
    return [family for family in permissions.FAMILIES if family in found]
