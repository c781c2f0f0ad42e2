"""The library of ISOs, and where each file is."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import actor, page_can
from panel.schemas.isos import AdminIsoIn, IsoPatch
from panel.services import isos
from panel.services.media import downloads
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say
from panel.web.paging import Page

bp = Blueprint("admin_isos", __name__, url_prefix="/admin/isos")
READ, WRITE = "admin:images:read", "admin:images:write"


@bp.get("")
@page_can(READ)
def index():
    search = request.args.get("search", "")[:255]
    page = Page(isos.listing(search=search))
    return render("admin/isos/index.html", "rows", page=page, filtered=bool(search))


@bp.get("/new")
@page_can(WRITE)
def new():
    return render("admin/isos/new.html", form=Form(AdminIsoIn, known={"public": True}))


@bp.post("/new")
@page_can(WRITE)
def create():
    form = Form(AdminIsoIn)
    if form.submit(lambda **data: isos.create(actor=actor(), **data)):
        say(f"{form.result.name} is being fetched.")
        return go(url_for(".show", iso_id=form.result.id))
    return render("admin/isos/new.html", "form", status=form.status, form=form)


@bp.get("/<iso_id>")
@page_can(READ)
def show(iso_id):
    iso = isos.get(iso_id)
    return render("admin/isos/show.html", "live", iso=iso, form=Form(IsoPatch, known=iso))


@bp.post("/<iso_id>")
@page_can(WRITE)
def update(iso_id):
    iso = isos.get(iso_id)
    form = Form(IsoPatch, known=iso)
    if form.submit(lambda **data: isos.update(iso, **data)):
        say(f"{iso.name} is changed.")
        return go(url_for(".show", iso_id=iso_id))
    return render("admin/isos/show.html", "form", status=form.status, iso=isos.get(iso_id), form=form)


@bp.post("/<iso_id>/retry")
@page_can(WRITE)
def retry(iso_id):
    iso = isos.get(iso_id)
    downloads.retry(iso, actor=actor())
    return did("The download begins anew where the file is missing.", url_for(".show", iso_id=iso_id))


@bp.post("/<iso_id>/delete")
@page_can(WRITE)
def delete(iso_id):
    iso = isos.get(iso_id)
    isos.delete(iso, actor=actor())
    say(f"{iso.name} is removed.")
    return go(url_for(".index"))
