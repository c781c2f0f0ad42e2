"""The image browser: images of publishers, and adding an image by its URL."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import get_current_actor, require_page_permission
from panel.schemas.images import ImageIn
from panel.services import image_catalog, images
from panel.web.forms import Form
from panel.web.htmx import flash_message, redirect_to, render
from panel.web.translation import gettext as _

bp = Blueprint("admin_image_browser", __name__, url_prefix="/admin/image-browser")
READ_PERMISSION, WRITE_PERMISSION = "admin:images:read", "admin:images:write"


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    search = request.args.get("search", "")[:255]
    context = {
        "entries": image_catalog.list_entries(search),
        "added_keys": image_catalog.get_taken_keys(),
        "filtered": bool(search),
    }
    return render("admin/image_browser/index.html", "rows", **context)


@bp.post("/<key>/add")
@require_page_permission(WRITE_PERMISSION)
def add(key):
    image = image_catalog.add(catalog_id=key, actor=get_current_actor())
    flash_message(_("Download of %(name)s started.", name=image.label))
    return redirect_to(url_for("admin_images.edit", image_id=image.id))


@bp.get("/new")
@require_page_permission(WRITE_PERMISSION)
def new():
    return render("admin/image_browser/new.html", form=Form(ImageIn, initial={"public": True, "cloudinit": True}))


@bp.post("/new")
@require_page_permission(WRITE_PERMISSION)
def create():
    form = Form(ImageIn)
    if form.submit(lambda **data: images.create(actor=get_current_actor(), **data)):
        flash_message(_("Download of %(name)s started.", name=form.result.label))
        return redirect_to(url_for("admin_images.edit", image_id=form.result.id))
    return render("admin/image_browser/new.html", "form", status=form.status, form=form)
