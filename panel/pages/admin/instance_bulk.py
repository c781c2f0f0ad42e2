"""One action on the selected instances of the operators' list."""

from flask import Blueprint, url_for

from panel.auth.browser_session import require_page_permission
from panel.pages.shared.instances.bulk import bulk_page
from panel.web.bulk_forms import AdminBulkIn, parse_bulk_request
from panel.web.htmx import redirect_to

bp = Blueprint("admin_instance_bulk", __name__, url_prefix="/admin/instances")


@bp.get("/bulk")
@require_page_permission("admin:instances:read")
def show_list():
    """Redirect to the list: the results of an action are shown once."""
    return redirect_to(url_for("admin_instances.index"))


@bp.post("/bulk")
@require_page_permission("admin:instances:write")
def bulk():
    """Run the action."""
    urls = {"back_url": url_for("admin_instances.index"), "bulk_url": url_for("admin_instance_bulk.bulk")}
    return bulk_page(parse_bulk_request(AdminBulkIn), **urls)
