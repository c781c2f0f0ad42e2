"""The image browser: images of publishers, and adding one by its address."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import actor, page_can
from panel.schemas.images import ImageIn
from panel.services import image_catalog, images
from panel.web.forms import Form
from panel.web.htmx import go, render, say

bp = Blueprint("admin_image_browser", __name__, url_prefix="/admin/image-browser")
READ, WRITE = "admin:images:read", "admin:images:write"


@bp.get("")
@page_can(READ)
def index():
    search = request.args.get("search", "")[:255]
    context = {"entries": image_catalog.entries(search), "taken": image_catalog.taken(), "filtered": bool(search)}
    return render("admin/image_browser/index.html", "rows", **context)


@bp.post("/<key>/add")
@page_can(WRITE)
def add(key):
    image = image_catalog.add(catalog_id=key, actor=actor())
    say(f"{image.label} is being fetched.")
    return go(url_for("admin_images.edit", image_id=image.id))


@bp.get("/new")
@page_can(WRITE)
def new():
    return render("admin/image_browser/new.html", form=Form(ImageIn, known={"public": True, "cloudinit": True}))


@bp.post("/new")
@page_can(WRITE)
def create():
    form = Form(ImageIn)
    if form.submit(lambda **data: images.create(actor=actor(), **data)):
        say(f"{form.result.label} is being fetched.")
        return go(url_for("admin_images.edit", image_id=form.result.id))
    return render("admin/image_browser/new.html", "form", status=form.status, form=form)
