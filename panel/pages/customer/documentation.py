"""The reference of the customers' API, on a page of the panel (specification 1)."""

from flask import Blueprint, render_template

from panel.auth import permissions
from panel.auth.browser_session import require_page_permission

bp = Blueprint("documentation", __name__)


@bp.get("/user/api/documentation")
@require_page_permission(permissions.ANY_USER)
def show():
    return render_template("customer/documentation/show.html", document="docs.user_document")
