"""One action on the instances that were ticked in the list."""

from flask import request, url_for

from panel.auth.browser_session import actor, page_can, require, viewer
from panel.pages.customer.instances import bp
from panel.schemas.bulk import BulkIn
from panel.services import instances
from panel.web.bulk_forms import asked, confirmed
from panel.web.htmx import render


@bp.post("/bulk")
@page_can("instances.view")
def bulk():
    """A destroy is asked for twice: the second time with what was typed."""
    wanted = asked(BulkIn)
    require(instances.BULK_NEEDS[wanted["action"]])
    where = {"back": url_for("instances.index"), "to": url_for("instances.bulk")}
    if wanted["action"] == "destroy" and not confirmed(wanted["ids"], request.form):
        chosen = instances.chosen(wanted["ids"], viewer())
        return render("bulk/destroy.html", chosen=chosen, typed=request.form.get("typed"), **where)
    lines = instances.each(actor=actor(), access=viewer(), **wanted)
    return render("bulk/results.html", lines=lines, wanted=wanted, counts=instances.bulk_counts(lines), **where)
