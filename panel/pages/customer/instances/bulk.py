"""One action on the instances that were ticked in the list."""

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
    """A destroy is asked for twice: the second time with what was typed."""
    wanted = parse_bulk_request(BulkIn)
    ensure_permission(instances.BULK_NEEDS[wanted["action"]])
    where = {"back": url_for("instances.index"), "to": url_for("instances.bulk")}
    if wanted["action"] == "destroy" and not is_confirmed(wanted["ids"], request.form):
        chosen = instances.select_instances(wanted["ids"], current_access())
        return render("bulk/destroy.html", chosen=chosen, typed=request.form.get("typed"), **where)
    lines = instances.run_bulk(actor=actor(), access=current_access(), **wanted)
    return render("bulk/results.html", lines=lines, wanted=wanted, counts=instances.bulk_counts(lines), **where)
