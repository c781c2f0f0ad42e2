"""One action on the selected instances of the operators' list."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import actor, require_page_permission
from panel.schemas.bulk import AdminBulkIn
from panel.services import instances
from panel.web.bulk_forms import is_confirmed, parse_bulk_request
from panel.web.htmx import render

bp = Blueprint("admin_instance_bulk", __name__, url_prefix="/admin/instances")


@bp.post("/bulk")
@require_page_permission("admin:instances:write")
def bulk():
    """Run the action. A destroy is shown for confirmation first and repeated with the typed text."""
    bulk_request = parse_bulk_request(AdminBulkIn)
    where = {"back": url_for("admin_instances.index"), "to": url_for("admin_instance_bulk.bulk")}
    if bulk_request["action"] == "destroy" and not is_confirmed(bulk_request["ids"], request.form):
        chosen = instances.select_instances(bulk_request["ids"])
        return render("bulk/destroy.html", chosen=chosen, typed=request.form.get("typed"), **where)
    lines = instances.run_bulk(actor=actor(), **bulk_request)
    return render("bulk/results.html", lines=lines, wanted=bulk_request, counts=instances.bulk_counts(lines), **where)
