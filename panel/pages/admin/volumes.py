"""All customers' volumes."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import get_current_actor, require_page_permission
from panel.services import volumes
from panel.web.htmx import build_action_response, render
from panel.web.page_registry import NavigationEntry
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("admin_volumes", __name__, url_prefix="/admin/volumes")
NAVIGATION = NavigationEntry(
    "customers", "Volumes", "admin_volumes.index", icon="database", permission="admin:volumes:read", position=20
)
READ_PERMISSION, WRITE_PERMISSION = "admin:volumes:read", "admin:volumes:write"


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    search = request.args.get("search", "")[:255]
    return render(
        "admin/volumes/index.html",
        "rows",
        page=Page(volumes.listing(search=search, deleting=True)),
        filtered=bool(search),
    )


@bp.post("/<volume_id>/<any(detach, delete):action>")
@require_page_permission(WRITE_PERMISSION)
def act(volume_id, action):
    getattr(volumes, action)(volumes.get(volume_id), actor=get_current_actor(), by_operator=True)
    return build_action_response(
        _("Detach requested.") if action == "detach" else _("Deletion requested."), url_for(".index")
    )
