"""One action on the instances that were ticked in the list."""

from flask import request, url_for

from panel.auth.browser import actor, page_can, require, viewer
from panel.bulk import asked, confirmed
from panel.htmx import render
from panel.schemas.bulk import BulkIn
from panel.services import instances
from panel.user.instances import bp


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
    return render("bulk/done.html", lines=lines, wanted=wanted, counts=instances.bulk_counts(lines), **where)
