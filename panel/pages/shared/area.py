"""Whose side a page is on: its owner's, who sees what is the account's, or the operators', who see everybody's.

    @page("POST", "/<instance_id>/tags", can="instances.manage")
    def tag(instance_id):
        instance = found(instance_id)

Views say what a customer needs; permissions.of_operator knows what that is for an operator.
"""

from flask import request, url_for

from panel.auth import browser_session, permissions
from panel.auth.browser_session import viewer
from panel.services import instances


class Pages:
    """Views that are written once and stand on both sides."""

    def __init__(self):
        self.rows = []
        """Method, path below the blueprint's, permission, view, and what else Flask is to know of it."""

    def page(self, method, path, *, can, **options):
        def row(view):
            self.rows.append((method, path, can, view, options))
            return view

        return row

    def stand(self, bp, *, operating=False):
        """Puts every row on the blueprint."""
        for method, path, can, view, options in self.rows:
            guard = browser_session.page_can(permissions.of_operator(can) if operating else can)
            bp.add_url_rule(path, view_func=guard(view), methods=[method], **{"endpoint": view.__name__, **options})


OF_INSTANCES = Pages()
page, stand = OF_INSTANCES.page, OF_INSTANCES.stand


def operating():
    """Whether the page that is asked for is one of the operators'."""
    here = request.blueprint or ""
    return here == "admin" or here.startswith("admin_")


def area():
    """What the names of this side's blueprints begin with: `url_for(area() ~ "tasks.show", …)`."""
    return "admin_" if operating() else ""


def needed(permission):
    return permissions.of_operator(permission) if operating() else permission


def refusal(permission):
    """Why the viewer may not do what a customer needs the permission for, as a sentence, or None."""
    return browser_session.refusal(needed(permission))


def may(permission):
    return refusal(permission) is None


def require(permission):
    browser_session.require(needed(permission))


def asker():
    """Whose resources may be named: the customer's own, or, by an operator, anybody's (None)."""
    return None if operating() else viewer()


def found(instance_id, *, even_suspended=False):
    """The instance, if the viewer may see it. While it is suspended its owner changes nothing, except by views that
    say that they are for suspended ones, too."""
    instance = instances.get(instance_id, asker())
    if request.method == "POST" and not operating() and not even_suspended:
        instances.refuse_suspended(instance)
    return instance


def whose(instance):
    """Whose keys, scripts, images and ISOs are offered for it: an operator sees its owner's."""
    return instance.account if operating() else viewer()


def at(instance, tab):
    """Where a tab of the instance is."""
    if tab == "overview":
        return url_for(f"{area()}instances.show", instance_id=instance.id)
    return url_for(f"{area()}instances.tab", instance_id=instance.id, tab=tab)
