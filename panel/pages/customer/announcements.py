"""Dismissing the announcements that pages show."""

from flask import Blueprint, request, url_for

from panel.auth import permissions
from panel.auth.browser_session import get_current_access, require_page_permission
from panel.services import announcements
from panel.web.htmx import is_local_url, redirect_to

bp = Blueprint("announcements", __name__, url_prefix="/announcements")


@bp.post("/<announcement_id>/dismiss")
@require_page_permission(permissions.PERSONAL)
def dismiss(announcement_id):
    announcements.dismiss(get_current_access(), announcement_id)
    url = request.form.get("next", "")
    return redirect_to(url if is_local_url(url) else url_for("overview.show"))
