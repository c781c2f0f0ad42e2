"""Projects: sorting resources, and giving them to people of the team together."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import may, page_can, viewer
from panel.core.db import session
from panel.schemas.projects import Assignment, ProjectIn, ProjectPatch
from panel.services import instances, projects, volumes
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say
from panel.web.paging import Page

bp = Blueprint("projects", __name__, url_prefix="/projects")
VIEW, MANAGE = "projects.view", "projects.manage"
COLORS = ("#1c5fd4", "#2fb344", "#f59f00", "#d63939", "#ae3ec9", "#0ca678", "#667382")


@bp.get("")
@page_can(VIEW)
def index():
    page = Page(projects.listing(viewer(), search=request.args.get("search", "")[:255]))
    projects.weigh(page.rows, viewer())
    return render("user/projects/index.html", "rows", page=page)


@bp.get("/new")
@page_can(MANAGE)
def new():
    return form_page(Form(ProjectIn, known={"color": COLORS[0]}))


@bp.post("/new")
@page_can(MANAGE)
def create():
    form = Form(ProjectIn)
    if form.submit(lambda **data: projects.create(viewer(), **data)):
        say(f"The project {form.result.name} is added.")
        return go(url_for(".show", project_id=form.result.id))
    return form_page(form, block="form")


@bp.get("/<project_id>")
@page_can(VIEW)
def show(project_id):
    project = projects.get(project_id, viewer())
    page = Page(instances.listing(viewer(), project_id=project.id)) if may("instances.view") else None
    inside = volumes.listing(viewer(), project_id=project.id).limit(MOST) if may("volumes.view") else None
    found = {
        "page": page,
        "volumes": session.scalars(inside).unique().all() if inside is not None else None,
        "others": session.execute(projects.resources(project, viewer()).limit(MOST)).all(),
    }
    return render("user/projects/show.html", "rows", project=project, **found)


MOST = 500
"""How many resources the form offers to add, and volumes are listed; more are found by their own pages."""


@bp.get("/<project_id>/edit")
@page_can(VIEW)
def edit(project_id):
    project = projects.get(project_id, viewer())
    return form_page(Form(ProjectPatch, known=project), project)


@bp.post("/<project_id>/edit")
@page_can(MANAGE)
def change(project_id):
    project = projects.get(project_id, viewer())
    form = Form(ProjectPatch)
    if form.submit(lambda **data: projects.update(project, **data)):
        say("The project is changed.")
        return go(url_for(".show", project_id=project_id))
    return form_page(form, projects.get(project_id, viewer()), "form")


def form_page(form, project=None, block=None):
    return render("user/projects/form.html", block, status=form.status, form=form, project=project, colors=COLORS)


@bp.post("/<project_id>/delete")
@page_can("projects.delete")
def delete(project_id):
    project = projects.get(project_id, viewer())
    projects.delete(project)
    say(f"The project {project.name} is removed. Its resources are in no project now.")
    return go(url_for(".index"))


@bp.post("/<project_id>/add")
@page_can(MANAGE)
def add(project_id):
    """Instances are sent as `resource_id`, volumes as `volume_id`."""
    sent = (("instance", "resource_id"), ("volume", "volume_id"))
    chosen = [(kind, each) for kind, name in sent for each in request.form.getlist(name) if each][:100]
    projects.assign(viewer(), chosen, project_id)
    say(f"{len(chosen)} added." if chosen else "Choose what to add first.", "success" if chosen else "warning")
    return go(url_for(".show", project_id=project_id))


@bp.post("/assign")
@page_can(MANAGE)
def assign():
    """One resource into a project or, with none chosen, out of it; from wherever it is shown."""
    form = Form(Assignment)
    sent = form.submit(
        lambda resource_type, resource_id, project_id: projects.assign(
            viewer(), [(resource_type, resource_id)], project_id
        )
    )
    message = "It is in the project now." if request.form.get("project_id") else "It is in no project now."
    return did(message if sent else " ".join(form.errors.values()), url_for(".index"), "success" if sent else "danger")
