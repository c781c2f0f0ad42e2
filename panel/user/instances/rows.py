"""The list of instances."""

from flask import request

from panel.auth.browser import page_can, viewer
from panel.htmx import render
from panel.paging import Page
from panel.schemas.words import STATES
from panel.services import instances
from panel.user.instances import bp
from panel.user.instances.controls import controls


@bp.get("")
@page_can("instances:read")
def index():
    state = request.args.get("state") if request.args.get("state") in STATES else None
    search = request.args.get("search", "").strip()[:255]
    page = Page(instances.listing(viewer(), search=search, state=state))
    restless = any(instance.state in ("pending", "migrating") for instance in page)
    found = {"page": page, "state": state, "search": search, "states": STATES, "restless": restless}
    return render("user/instances/index.html", "rows", controls=controls, **found)
