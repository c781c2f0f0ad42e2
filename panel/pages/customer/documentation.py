"""The reference of the customers' API, on a page of the panel (DOC-09)."""

from flask import Blueprint, render_template

from panel.auth import permissions
from panel.auth.browser_session import require_page_permission
from panel.web.page_registry import NavigationEntry

bp = Blueprint("documentation", __name__)
NAVIGATION = NavigationEntry(
    "account", "API reference", "documentation.show", icon="code", permission=permissions.ANY_USER, position=70
)


@bp.get("/user/api/documentation")
@require_page_permission(permissions.ANY_USER)
def show():
    return render_template("customer/documentation/show.html", document="docs.user_document")
