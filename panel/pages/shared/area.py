"""Shared views and the two areas: customers see their account's resources, operators see all.

    @route("POST", "/<instance_id>/tags", can="instances.manage")
    def tag(instance_id):
        instance = get_instance(instance_id)

`can` is the customers' permission; permissions.get_operator_permission maps it to the operators'.
"""

from flask import request, url_for

from panel.auth import browser_session, permissions
from panel.auth.browser_session import get_current_access
from panel.services import instances


class SharedViews:
    """Views that are written once and registered in both areas."""

    def __init__(self):
        self.rows = []
        """Rows of method, path below the blueprint's, permission, view, options for Flask."""

    def page(self, method, path, *, can, **options):
        def row(view):
            self.rows.append((method, path, can, view, options))
            return view

        return row

    def register(self, bp, *, is_operator_area=False):
        """Add all views to the blueprint of an area."""
        for method, path, can, view, options in self.rows:
            guard = browser_session.require_page_permission(
                permissions.get_operator_permission(can) if is_operator_area else can
            )
            bp.add_url_rule(path, view_func=guard(view), methods=[method], **{"endpoint": view.__name__, **options})


INSTANCE_VIEWS = SharedViews()
route, register = INSTANCE_VIEWS.page, INSTANCE_VIEWS.register


def is_operator_area():
    """Return whether the requested page is in the operator area."""
    blueprint = request.blueprint or ""
    return blueprint == "admin" or blueprint.startswith("admin_")


def get_endpoint_prefix():
    """Return the prefix of the area's blueprint names. Templates: `url_for(area() ~ "tasks.show", …)`."""
    return "admin_" if is_operator_area() else ""


def get_required_permission(permission):
    return permissions.get_operator_permission(permission) if is_operator_area() else permission


def permission_error(permission):
    """Return why the viewer lacks the area's equivalent of a customers' permission, or None."""
    return browser_session.permission_error(get_required_permission(permission))


def has_permission(permission):
    return permission_error(permission) is None


def ensure_permission(permission):
    browser_session.ensure_permission(get_required_permission(permission))


def scope_account():
    """Return the access whose resources a page may use: the customer's own, or None (all) for operators."""
    return None if is_operator_area() else get_current_access()


def get_instance(instance_id, *, is_suspended_allowed=False):
    """Return the instance, if the viewer may see it. Raises Conflict when a customer posts to a suspended instance,
    unless `is_suspended_allowed`."""
    instance = instances.get(instance_id, scope_account())
    if request.method == "POST" and not is_operator_area() and not is_suspended_allowed:
        instances.ensure_not_suspended(instance)
    return instance


def get_owner(instance):
    """Return whose keys, scripts, images and ISOs the forms offer: for operators those of the instance's owner."""
    return instance.account if is_operator_area() else get_current_access()


def tab_url(instance, tab):
    """Return the URL of a tab of the instance."""
    if tab == "overview":
        return url_for(f"{get_endpoint_prefix()}instances.show", instance_id=instance.id)
    return url_for(f"{get_endpoint_prefix()}instances.tab", instance_id=instance.id, tab=tab)
