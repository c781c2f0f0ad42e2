"""The list of instances."""

from flask import request

from panel import charts
from panel.auth.browser import may, page_can, viewer
from panel.db import session
from panel.htmx import render
from panel.instance_pages.controls import controls
from panel.paging import Page
from panel.schemas.words import STATES
from panel.searching import searched
from panel.services import metrics, projects
from panel.user.instances import bp

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
