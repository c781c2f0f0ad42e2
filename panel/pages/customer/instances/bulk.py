"""One action on the selected instances of the list."""

from flask import request, url_for

from panel.auth.browser_session import actor, current_access, ensure_permission, require_page_permission
from panel.pages.customer.instances import bp
from panel.schemas.bulk import BulkIn
from panel.services import instances
from panel.web.bulk_forms import is_confirmed, parse_bulk_request
from panel.web.htmx import render


@bp.post("/bulk")
@require_page_permission("instances.view")
def bulk():
    """Run the action. A destroy is shown for confirmation first and repeated with the typed text."""
    bulk_request = parse_bulk_request(BulkIn)
    ensure_permission(instances.ACTIONS[bulk_request["action"]].permission)
    where = {"back": url_for("instances.index"), "to": url_for("instances.bulk")}
    if bulk_request["action"] == "destroy" and not is_confirmed(bulk_request["ids"], request.form):
        chosen = instances.select_instances(bulk_request["ids"], current_access())
        return render("bulk/destroy.html", chosen=chosen, typed=request.form.get("typed"), **where)
    lines = instances.run_bulk(actor=actor(), access=current_access(), **bulk_request)
    return render("bulk/results.html", lines=lines, wanted=bulk_request, counts=instances.bulk_counts(lines), **where)
