"""All customers' user scripts, without their contents, which only owners see."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import require_page_permission
from panel.services import user_scripts
from panel.web.htmx import build_action_response, render
from panel.web.page_registry import NavigationEntry
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("admin_user_scripts", __name__, url_prefix="/admin/user-scripts")
NAVIGATION = NavigationEntry(
    "customers",
    "User scripts",
    "admin_user_scripts.index",
    icon="file-text",
    permission="admin:accounts:read",
    position=40,
)


@bp.get("")
@require_page_permission("admin:accounts:read")
def index():
    search = request.args.get("search", "")[:255]
    page = Page(user_scripts.listing(search=search))
    return render("admin/user_scripts/index.html", "rows", page=page, filtered=bool(search))


@bp.post("/<script_id>/delete")
@require_page_permission("admin:accounts:write")
def delete(script_id):
    script = user_scripts.get(script_id)
    user_scripts.delete(script)
    return build_action_response(_("User script %(name)s deleted.", name=script.name), url_for(".index"))
