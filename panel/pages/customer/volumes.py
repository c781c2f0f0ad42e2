"""Volumes: the list, making one, and everything about one."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import actor, may, page_can, viewer
from panel.core.db import session
from panel.core.errors import Problem
from panel.models import Instance
from panel.schemas.volumes import VolumeAttach, VolumeIn, VolumeResize, VolumeRestore, VolumeSnapshotIn
from panel.services import catalog, instances, projects, usage, volume_plans, volumes
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say
from panel.web.paging import Page

bp = Blueprint("volumes", __name__, url_prefix="/volumes")
VIEW, MANAGE, DELETE = "volumes.view", "volumes.manage", "volumes.delete"


def closed():
    """Why nothing can be done with volumes now, or None."""
    try:
        usage.gate(viewer())
    except Problem as error:
        return error.message
    return None


def mine(volume_id):
    return volumes.get(volume_id, viewer())


def own_projects():
    return session.scalars(projects.listing(viewer())).all() if may("projects.view") else []


def plans():
    return session.scalars(volume_plans.offered()).all()


@bp.get("")
@page_can(VIEW)
def index():
    there = [(project.id, project.name) for project in own_projects()]
    wanted = {"search": request.args.get("search", "")[:255]}
    wanted["project_id"] = next((each for each, _ in there if each == request.args.get("project")), None)
    page = Page(volumes.listing(viewer(), **wanted))
    moving = any(volume.status == "pending" or volume.pending for volume in page)
    found = {"page": page, "closed": closed(), "moving": moving, "projects": there, "filtered": any(wanted.values())}
    return render("user/volumes/index.html", "rows", **found)


@bp.get("/new")
@page_can(MANAGE)
def new():
    return form_page(Form(VolumeIn, known={"project_id": request.args.get("project")}))


@bp.post("/new")
@page_can(MANAGE)
def create():
    usage.gate(viewer())
    form = Form(VolumeIn)
    if form.submit(lambda **wanted: volumes.create(viewer(), actor=actor(), **wanted)):
        say(f"The volume {form.result.name} is being created.")
        return go(url_for(".show", volume_id=form.result.id))
    return form_page(form)


def form_page(form):
    found = {"plans": plans(), "locations": session.scalars(catalog.locations(viewer())).all()}
    found["projects"] = own_projects()
    return render("user/volumes/new.html", "form", status=form.status, form=form, closed=closed(), **found)


@bp.get("/<volume_id>")
@page_can(VIEW)
def show(volume_id):
    return shown(volume_id)


def shown(volume_id, **forms):
    volume = mine(volume_id)
    places = instances.listing(viewer()).where(Instance.group_id == volume.group_id)
    found = {
        "volume": volume,
        "closed": closed(),
        "instances": session.scalars(places.limit(500)).unique().all() if may("instances.view") else [],
        "projects": own_projects(),
        "plans": [plan for plan in plans() if plan.volume_plan_group_id == volume.plan.volume_plan_group_id],
        "attaching": forms.get("attaching") or Form(VolumeAttach),
        "resizing": forms.get("resizing") or Form(VolumeResize),
        "taking": forms.get("taking") or Form(VolumeSnapshotIn),
    }
    status = max(form.status for form in (found["attaching"], found["resizing"], found["taking"]))
    return render("user/volumes/show.html", "live", status=status, **found)


def submitted(volume_id, name, schema, action, message):
    """One of the page's forms: done, or the page again with what is wrong."""
    usage.gate(viewer())
    volume, form = mine(volume_id), Form(schema)
    if form.submit(lambda **wanted: action(volume, actor=actor(), **wanted)):
        say(message)
        return go(url_for(".show", volume_id=volume_id))
    return shown(volume_id, **{name: form})


@bp.post("/<volume_id>/attach")
@page_can(MANAGE)
def attach(volume_id):
    def to(volume, **wanted):
        return volumes.attach(volume, account=viewer(), **wanted)

    return submitted(volume_id, "attaching", VolumeAttach, to, "Attachment of the volume requested.")


@bp.post("/<volume_id>/resize")
@page_can(MANAGE)
def resize(volume_id):
    return submitted(volume_id, "resizing", VolumeResize, volumes.resize, "Growth of the volume requested.")


@bp.post("/<volume_id>/snapshot")
@page_can(MANAGE)
def snapshot(volume_id):
    return submitted(volume_id, "taking", VolumeSnapshotIn, volumes.snapshot, "Snapshot requested.")


@bp.post("/<volume_id>/detach")
@page_can(MANAGE)
def detach(volume_id):
    usage.gate(viewer())
    volumes.detach(mine(volume_id), actor=actor())
    return did("Detachment of the volume requested.", url_for(".show", volume_id=volume_id))


@bp.post("/<volume_id>/delete")
@page_can(DELETE)
def delete(volume_id):
    usage.gate(viewer())
    volume = mine(volume_id)
    volumes.delete(volume, actor=actor())
    say(f"The volume {volume.name} is being deleted.")
    return go(url_for(".index"))


@bp.post("/<volume_id>/snapshot/<snapshot_id>/<any(restore, copy, delete):action>")
@page_can(MANAGE)
def use_snapshot(volume_id, snapshot_id, action):
    usage.gate(viewer())
    found = volumes.snapshot_of(mine(volume_id), snapshot_id)
    if action == "delete":
        volumes.delete_snapshot(found, actor=actor())
    else:
        place = {"volume_plan_id": found.volume.plan_id, "hypervisor_group_id": found.volume.group_id}
        how = {"mode": "in_place"} if action == "restore" else {"mode": "new_volume", **place}
        volumes.restore(found, account=viewer(), actor=actor(), **VolumeRestore().load(how))
    words = {"restore": "Restore requested.", "copy": "New volume from the snapshot requested."}
    return did(words.get(action, "Deletion of the snapshot requested."), url_for(".show", volume_id=volume_id))
