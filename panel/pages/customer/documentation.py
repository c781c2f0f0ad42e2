"""The reference of the customers' API, on pages of the panel (DOC-09)."""

from flask import Blueprint, url_for

from panel.auth import permissions
from panel.auth.browser_session import require_page_permission
from panel.web.api_reference import render_reference
from panel.web.page_registry import NavigationEntry

bp = Blueprint("documentation", __name__)
NAVIGATION = NavigationEntry(
    "account", "API reference", "documentation.show", icon="code", permission=permissions.ANY_USER, position=70
)


@bp.get("/user/api/documentation")
@bp.get("/user/api/documentation/<family>")
@require_page_permission(permissions.ANY_USER)
def show(family=None):
    def get_url(name=None):
        return url_for(".show", family=name)

    return render_reference("customer/documentation/show.html", "user", family, get_url)
