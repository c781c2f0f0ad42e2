"""One action on the selected instances of the list."""

from flask import url_for

from panel.auth.browser_session import ensure_permission, get_current_access, require_page_permission
from panel.pages.customer.instances import bp
from panel.pages.shared.instances.bulk import bulk_page
from panel.services import instances
from panel.web.bulk_forms import BulkIn, parse_bulk_request
from panel.web.htmx import redirect_to


@bp.get("/bulk")
@require_page_permission("instances.view")
def show_list():
    """Redirect to the list: the results of an action are shown once."""
    return redirect_to(url_for("instances.index"))


@bp.post("/bulk")
@require_page_permission("instances.view")
def bulk():
    """Run the action, which needs the permission that it needs alone."""
    bulk_request = parse_bulk_request(BulkIn)
    ensure_permission(instances.ACTIONS[bulk_request["action"]].permission)
    return bulk_page(
        bulk_request, get_current_access(), back_url=url_for("instances.index"), bulk_url=url_for("instances.bulk")
    )
