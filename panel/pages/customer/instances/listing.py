"""The list of instances."""

from flask import request

from panel.auth.browser_session import may, page_can, viewer
from panel.core.db import session
from panel.pages.customer.instances import bp
from panel.pages.shared.instances.power_buttons import controls
from panel.schemas.constants import STATES
from panel.services import metrics, projects
from panel.web import charts
from panel.web.htmx import render
from panel.web.instance_search_form import searched
from panel.web.paging import Page

ACTIONS = (
    ("start", "Start", "player-play"),
    ("restart", "Restart", "rotate-clockwise"),
    ("shutdown", "Shut down", "power"),
    ("poweroff", "Power off", "plug"),
    ("destroy", "Destroy", "trash"),
)
"""What the bar offers for ticked rows."""


@bp.get("")
@page_can("instances.view")
def index():
    state = request.args.get("state") if request.args.get("state") in STATES else None
    search = request.args.get("search", "").strip()[:255]
    listed = session.scalars(projects.listing(viewer())).all() if may("projects.view") else []
    project = next((each for each in listed if each.id == request.args.get("project")), None)
    query, wrong = searched(viewer(), search=search, state=state, project_id=project and project.id)
    page = Page(query)
    restless = any(instance.state in ("pending", "migrating") for instance in page)
    found = {"page": page, "state": state, "search": search, "states": STATES, "restless": restless}
    found |= {"project": project, "projects": listed}
    found |= {"wrong": wrong, "actions": ACTIONS}
    found |= {"sparks": metrics.sparks(page.rows), "spark": charts.spark}
    return render("user/instances/index.html", "rows", controls=controls, **found)
