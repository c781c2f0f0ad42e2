"""Images that customers made of their instances."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import actor, page_can, viewer
from panel.schemas.image_captures import ImageRename
from panel.services import image_captures
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say
from panel.web.paging import Page

bp = Blueprint("images", __name__, url_prefix="/images")


@bp.get("")
@page_can("images.view")
def index():
    search = request.args.get("search", "")[:255]
    page = Page(image_captures.listing(viewer(), search=search))
    return render("user/images/index.html", "rows", page=page, filtered=bool(search))


@bp.get("/<image_id>")
@page_can("images.view")
def edit(image_id):
    image = image_captures.get(image_id, viewer())
    return render("user/images/edit.html", image=image, form=Form(ImageRename, known=image))


@bp.post("/<image_id>")
@page_can("images.manage")
def update(image_id):
    image = image_captures.get(image_id, viewer())
    form = Form(ImageRename, known=image)
    if form.submit(lambda **data: image_captures.rename(image, data.get("name", image.name))):
        say("The image is changed.")
        return go(url_for(".index"))
    return render("user/images/edit.html", "form", status=form.status, image=image, form=form)


@bp.post("/<image_id>/delete")
@page_can("images.delete")
def delete(image_id):
    image = image_captures.get(image_id, viewer())
    image_captures.delete(image, actor=actor())
    return did(f"{image.name} is removed.", url_for(".index"))
