"""One action on the instances that were ticked in the operators' list."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import actor, page_can
from panel.schemas.bulk import AdminBulkIn
from panel.services import instances
from panel.web.bulk_forms import asked, confirmed
from panel.web.htmx import render

bp = Blueprint("admin_instance_bulk", __name__, url_prefix="/admin/instances")


@bp.post("/bulk")
@page_can("admin:instances:write")
def bulk():
    """A destroy is asked for twice: the second time with what was typed."""
    wanted = asked(AdminBulkIn)
    where = {"back": url_for("admin_instances.index"), "to": url_for("admin_instance_bulk.bulk")}
    if wanted["action"] == "destroy" and not confirmed(wanted["ids"], request.form):
        chosen = instances.chosen(wanted["ids"])
        return render("bulk/destroy.html", chosen=chosen, typed=request.form.get("typed"), **where)
    lines = instances.each(actor=actor(), **wanted)
    return render("bulk/results.html", lines=lines, wanted=wanted, counts=instances.bulk_counts(lines), **where)
