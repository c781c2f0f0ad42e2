"""ISOs: what can be put into the drives of instances."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import actor, page_can, viewer
from panel.schemas.isos import IsoIn
from panel.services import isos
from panel.services.media import downloads
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say
from panel.web.paging import Page

bp = Blueprint("isos", __name__, url_prefix="/isos")


@bp.get("")
@page_can("isos.view")
def index():
    search = request.args.get("search", "")[:255]
    page = Page(isos.listing(viewer(), search=search))
    return render("user/isos/index.html", "rows", page=page, filtered=bool(search))


@bp.get("/new")
@page_can("isos.manage")
def new():
    return render("user/isos/new.html", form=Form(IsoIn))


@bp.post("/new")
@page_can("isos.manage")
def create():
    form = Form(IsoIn)
    if form.submit(lambda **data: isos.create(viewer(), actor=actor(), **data)):
        say(f"{form.result.name} is being fetched.")
        return go(url_for(".index"))
    return render("user/isos/new.html", "form", status=form.status, form=form)


@bp.post("/<iso_id>/retry")
@page_can("isos.manage")
def retry(iso_id):
    iso = isos.get(iso_id, viewer(), own=True)
    downloads.retry(iso, actor=actor())
    return did(f"The download of {iso.name} begins anew.", url_for(".index"))


@bp.post("/<iso_id>/delete")
@page_can("isos.delete")
def delete(iso_id):
    iso = isos.get(iso_id, viewer(), own=True)
    isos.delete(iso, actor=actor())
    return did(f"{iso.name} is removed.", url_for(".index"))
