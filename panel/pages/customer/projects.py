"""Projects: groups of resources, which can be granted to team members together."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import get_current_access, has_permission, require_page_permission
from panel.core.db import session
from panel.models import Project
from panel.schemas.projects import Assignment, ProjectIn, ProjectPatch
from panel.services import instances, projects, volumes
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, PaletteAction, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("projects", __name__, url_prefix="/projects")
NAVIGATION = NavigationEntry("", "Projects", "projects.index", icon="folder", permission="projects.view", position=20)
PALETTE_ACTIONS = (
    PaletteAction("Add project", "projects.new", icon="folder", permission="projects.manage", position=20),
)
SEARCH_RESULTS = (
    SearchResults("project", "Projects", icon="folder", url=lambda row: url_for("projects.show", project_id=row.id)),
)
VIEW_PERMISSION, MANAGE_PERMISSION = "projects.view", "projects.manage"
PROJECT_COLORS = ("#1c5fd4", "#2fb344", "#f59f00", "#d63939", "#ae3ec9", "#0ca678", "#667382")
ORDERS = {"name": Project.name}


@bp.get("")
@require_page_permission(VIEW_PERMISSION)
def index():
    query = projects.listing(get_current_access(), search=request.args.get("search", "")[:255])
    page = Page(projects.with_counts(query, get_current_access()), orders=ORDERS)
    return render("customer/projects/index.html", "rows", page=page)


@bp.get("/new")
@require_page_permission(MANAGE_PERMISSION)
def new():
    return form_page(Form(ProjectIn, initial={"color": PROJECT_COLORS[0]}))


@bp.post("/new")
@require_page_permission(MANAGE_PERMISSION)
def create():
    form = Form(ProjectIn)
    if form.submit(lambda **data: projects.create(get_current_access(), **data)):
        flash_message(_("Project %(name)s created.", name=form.result.name))
        return redirect_to(url_for(".show", project_id=form.result.id))
    return form_page(form, block="form")


@bp.get("/<project_id>")
@require_page_permission(VIEW_PERMISSION)
def show(project_id):
    project = projects.get(project_id, get_current_access())
    page = (
        Page(instances.select_list_rows(get_current_access(), project_id=project.id))
        if has_permission("instances.view")
        else None
    )
    volumes_query = (
        volumes.listing(get_current_access(), project_id=project.id).limit(MAX_OFFERED_RESOURCES)
        if has_permission("volumes.view")
        else None
    )
    context = {
        "page": page,
        "volumes": session.scalars(volumes_query).unique().all() if volumes_query is not None else None,
        "others": session.execute(
            projects.select_other_resources(project, get_current_access()).limit(MAX_OFFERED_RESOURCES)
        ).all(),
    }
    return render("customer/projects/show.html", "rows", project=project, **context)


MAX_OFFERED_RESOURCES = 500
"""Maximum of resources in the form and of listed volumes; their own pages have the rest."""


@bp.get("/<project_id>/edit")
@require_page_permission(VIEW_PERMISSION)
def edit(project_id):
    project = projects.get(project_id, get_current_access())
    return form_page(Form(ProjectPatch, initial=project), project)


@bp.post("/<project_id>/edit")
@require_page_permission(MANAGE_PERMISSION)
def change(project_id):
    project = projects.get(project_id, get_current_access())
    form = Form(ProjectPatch)
    if form.submit(lambda **data: projects.update(project, **data)):
        flash_message(_("Project saved."))
        return redirect_to(url_for(".show", project_id=project_id))
    return form_page(form, projects.get(project_id, get_current_access()), "form")


def form_page(form, project=None, block=None):
    return render(
        "customer/projects/form.html", block, status=form.status, form=form, project=project, colors=PROJECT_COLORS
    )


@bp.post("/<project_id>/delete")
@require_page_permission("projects.delete")
def delete(project_id):
    project = projects.get(project_id, get_current_access())
    projects.delete(project)
    flash_message(_("Project %(name)s deleted. Its resources no longer have a project.", name=project.name))
    return redirect_to(url_for(".index"))


@bp.post("/<project_id>/add")
@require_page_permission(MANAGE_PERMISSION)
def add(project_id):
    """Add resources. The form sends instances as `resource_id`, volumes as `volume_id`."""
    fields = (("instance", "resource_id"), ("volume", "volume_id"))
    resources = [
        (kind, resource_id) for kind, name in fields for resource_id in request.form.getlist(name) if resource_id
    ][:100]
    projects.assign(get_current_access(), resources, project_id)
    flash_message(
        _("%(count)s added.", count=len(resources)) if resources else _("Select resources first."),
        "success" if resources else "warning",
    )
    return redirect_to(url_for(".show", project_id=project_id))


@bp.post("/assign")
@require_page_permission(MANAGE_PERMISSION)
def assign():
    """Move one resource into a project, or out of its project when none is chosen. Used on several pages."""
    form = Form(Assignment)
    is_assigned = form.submit(
        lambda resource_type, resource_id, project_id: projects.assign(
            get_current_access(), [(resource_type, resource_id)], project_id
        )
    )
    message = _("Added to the project.") if request.form.get("project_id") else _("Removed from the project.")
    return build_action_response(
        message if is_assigned else " ".join(form.errors.values()),
        url_for(".index"),
        "success" if is_assigned else "danger",
    )
