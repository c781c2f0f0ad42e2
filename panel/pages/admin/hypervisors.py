"""Hypervisors: their health, how full they are, what runs on them."""

from datetime import UTC, datetime, timedelta

from flask import Blueprint, abort, request, url_for
from sqlalchemy.orm import selectinload

from panel.auth.browser_session import actor, page_can
from panel.core import clock
from panel.core.db import session
from panel.models import Hypervisor
from panel.schemas.constants import HYPERVISOR_STATUSES
from panel.schemas.hypervisors import HypervisorIn, HypervisorPatch
from panel.services import hypervisor_removal, hypervisors, instances, tasks
from panel.web.formatting import worded
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say
from panel.web.paging import Page

bp = Blueprint("admin_hypervisors", __name__, url_prefix="/admin/hypervisors")
READ, WRITE = "admin:hypervisors:read", "admin:hypervisors:write"
PATIENCE = timedelta(minutes=1)
"""How long a page that asked for a test expects the answer."""
DEFAULTS = {
    "driver": "libvirt",
    "uri": "qemu:///system",
    "storage_path": "/var/lib/libvirt/images",
    "network": "public",
    "max_tasks": 4,
    "cpu_overcommit": 4,
    "memory_overcommit": 1,
}
SWITCHED = {
    ("maintenance", "on"): "{} is in maintenance: it gets no new machines.",
    ("maintenance", "off"): "{} is out of maintenance.",
    ("locked", "on"): "{} is locked: it gets no new machines.",
    ("locked", "off"): "{} is unlocked.",
    ("deploy_enabled", "off"): "{} gets no new machines.",
    ("deploy_enabled", "on"): "{} gets new machines again.",
}


@bp.get("")
@page_can(READ)
def index():
    status, group = request.args.get("status"), request.args.get("group")
    wanted = {"search": request.args.get("search", "")[:255], "group_id": group}
    wanted["status"] = status if status in HYPERVISOR_STATUSES else None
    page = Page(hypervisors.listing(**wanted).options(selectinload(Hypervisor.storages)))
    hypervisors.weigh(page.rows)
    context = {"condition": hypervisors.condition, "groups": groups(), "statuses": worded(HYPERVISOR_STATUSES)}
    return render("admin/hypervisors/index.html", "rows", page=page, filtered=any(wanted.values()), **context)


@bp.get("/new")
@page_can(WRITE)
def new():
    known = {**DEFAULTS, "hypervisor_group_id": request.args.get("group")}
    return render("admin/hypervisors/new.html", form=Form(HypervisorIn, known=known), groups=groups())


@bp.post("/new")
@page_can(WRITE)
def create():
    """The new host's page shows how the first look at it goes."""
    form = Form(HypervisorIn)
    if form.submit(add):
        return go(url_for(".show", hypervisor_id=form.result.id))
    return render("admin/hypervisors/new.html", "form", status=form.status, form=form, groups=groups())


def add(hypervisor_group_id, **values):
    return hypervisors.create(hypervisors.group(hypervisor_group_id, "hypervisor_group_id"), **values)


def groups():
    return session.execute(hypervisors.group_names()).all()


@bp.get("/<hypervisor_id>")
@page_can(READ)
def show(hypervisor_id):
    hypervisor = hypervisors.get(hypervisor_id)
    hypervisors.weigh([hypervisor])
    hypervisors.fill(hypervisor.storages)
    asked = moment(request.args.get("since"))
    return render(
        "admin/hypervisors/show.html",
        "live",
        hypervisor=hypervisor,
        condition=hypervisors.condition,
        asked=asked,
        looking=hypervisor.status == "unknown" or awaited(hypervisor, asked),
        work=session.scalars(tasks.listing(status="open", hypervisor_id=hypervisor.id).limit(5)).all(),
    )


def awaited(hypervisor, asked):
    """Whether the answer to a test that was asked for at that moment is still to come."""
    recent = asked and asked > clock.now() - PATIENCE
    return bool(recent and hypervisor.status == "up" and not (hypervisor.seen_at and hypervisor.seen_at > asked))


def moment(text):
    try:
        return datetime.fromtimestamp(float(text), UTC)
    except (TypeError, ValueError, OverflowError):
        return None


@bp.get("/<hypervisor_id>/instances")
@page_can(READ)
def machines(hypervisor_id):
    hypervisor = hypervisors.get(hypervisor_id)
    page = Page(instances.listing(hypervisor_id=hypervisor.id))
    return render(
        "admin/hypervisors/instances.html", "rows", hypervisor=hypervisor, page=page, condition=hypervisors.condition
    )


@bp.get("/<hypervisor_id>/edit")
@page_can(READ)
def edit(hypervisor_id):
    hypervisor = hypervisors.get(hypervisor_id)
    known = {name: getattr(hypervisor, name) for name in HypervisorPatch().fields if name != "hypervisor_group_id"}
    form = Form(HypervisorPatch, known={**known, "hypervisor_group_id": hypervisor.group_id})
    return edit_page(hypervisor, form)


@bp.post("/<hypervisor_id>/edit")
@page_can(WRITE)
def update(hypervisor_id):
    hypervisor = hypervisors.get(hypervisor_id)
    form = Form(HypervisorPatch)
    if form.submit(lambda **data: hypervisors.update(hypervisor, **data)):
        say(f"{hypervisor.name} is changed.")
        return go(url_for(".show", hypervisor_id=hypervisor.id))
    return edit_page(hypervisor, form)


def edit_page(hypervisor, form):
    context = {"groups": groups(), "condition": hypervisors.condition, "held": hypervisor_removal.held(hypervisor)}
    return render(
        "admin/hypervisors/edit.html", "form", status=form.status, hypervisor=hypervisor, form=form, **context
    )


@bp.post("/<hypervisor_id>/test")
@page_can(WRITE)
def test(hypervisor_id):
    hypervisor = hypervisors.get(hypervisor_id)
    hypervisors.test(hypervisor)
    return go(url_for(".show", hypervisor_id=hypervisor.id, since=clock.now().timestamp()))


@bp.post("/<hypervisor_id>/switch/<flag>/<to>")
@page_can(WRITE)
def switch(hypervisor_id, flag, to):
    words = SWITCHED.get((flag, to)) or abort(404)
    hypervisor = hypervisors.update(hypervisors.get(hypervisor_id), **{flag: to == "on"})
    return did(words.format(hypervisor.name), url_for(".show", hypervisor_id=hypervisor.id))


@bp.post("/<hypervisor_id>/delete")
@page_can(WRITE)
def delete(hypervisor_id):
    hypervisor = hypervisors.get(hypervisor_id)
    hypervisors.delete(hypervisor)
    say(f"{hypervisor.name} is removed from the panel. Nothing was changed on the host.")
    return go(url_for(".index"))


@bp.post("/<hypervisor_id>/give-up")
@page_can(WRITE)
def give_up(hypervisor_id):
    """The name has to be typed: the machines are gone for their owners, too."""
    hypervisor = hypervisors.get(hypervisor_id)
    hypervisor_removal.give_up(hypervisor, name=request.form.get("typed", "").strip(), actor=actor())
    say(f"{hypervisor.name} and everything that was on it are removed from the panel.")
    return go(url_for(".index"))
