"""Whose side a page is on: its owner's, who sees what is the account's, or the operators', who see everybody's.

    @page("POST", "/<instance_id>/tags", can="instances.manage")
    def tag(instance_id):
        instance = found(instance_id)

Views say what a customer needs; permissions.of_operator knows what that is for an operator.
"""

from flask import request, url_for

from panel.auth import browser_session, permissions
from panel.auth.browser_session import current_access
from panel.services import instances


class SharedViews:
    """Views that are written once and stand on both sides."""

    def __init__(self):
        self.rows = []
        """Method, path below the blueprint's, permission, view, and what else Flask is to know of it."""

    def page(self, method, path, *, can, **options):
        def row(view):
            self.rows.append((method, path, can, view, options))
            return view

        return row

    def register(self, bp, *, is_operator_area=False):
        """Puts every row on the blueprint."""
        for method, path, can, view, options in self.rows:
            guard = browser_session.require_page_permission(
                permissions.operator_equivalent(can) if is_operator_area else can
            )
            bp.add_url_rule(path, view_func=guard(view), methods=[method], **{"endpoint": view.__name__, **options})


INSTANCE_VIEWS = SharedViews()
route, register = INSTANCE_VIEWS.page, INSTANCE_VIEWS.register


def is_operator_area():
    """Whether the page that is asked for is one of the operators'."""
    here = request.blueprint or ""
    return here == "admin" or here.startswith("admin_")


def endpoint_prefix():
    """What the names of this side's blueprints begin with: `url_for(area() ~ "tasks.show", …)`."""
    return "admin_" if is_operator_area() else ""


def required_permission(permission):
    return permissions.operator_equivalent(permission) if is_operator_area() else permission


def permission_error(permission):
    """Why the viewer may not do what a customer needs the permission for, as a sentence, or None."""
    return browser_session.permission_error(required_permission(permission))


def has_permission(permission):
    return permission_error(permission) is None


def ensure_permission(permission):
    browser_session.ensure_permission(required_permission(permission))


def scope_account():
    """Whose resources may be named: the customer's own, or, by an operator, anybody's (None)."""
    return None if is_operator_area() else current_access()


def get_instance(instance_id, *, is_suspended_allowed=False):
    """The instance, if the viewer may see it. While it is suspended its owner changes nothing, except by views that
    say that they are for suspended ones, too."""
    instance = instances.get(instance_id, scope_account())
    if request.method == "POST" and not is_operator_area() and not is_suspended_allowed:
        instances.ensure_not_suspended(instance)
    return instance


def owner_of(instance):
    """Whose keys, scripts, images and ISOs are offered for it: an operator sees its owner's."""
    return instance.account if is_operator_area() else current_access()


def tab_url(instance, tab):
    """Where a tab of the instance is."""
    if tab == "overview":
        return url_for(f"{endpoint_prefix()}instances.show", instance_id=instance.id)
    return url_for(f"{endpoint_prefix()}instances.tab", instance_id=instance.id, tab=tab)
