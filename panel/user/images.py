"""Images that customers made of their instances."""

from flask import Blueprint, request, url_for

from panel.auth.browser import actor, page_can, viewer
from panel.forms import Form
from panel.htmx import did, go, render, say
from panel.paging import Page
from panel.schemas.captures import ImageRename
from panel.services import captures

bp = Blueprint("images", __name__, url_prefix="/images")


@bp.get("")
@page_can("images.view")
def index():
    search = request.args.get("search", "")[:255]
    page = Page(captures.listing(viewer(), search=search))
    return render("user/images/index.html", "rows", page=page, filtered=bool(search))


@bp.get("/<image_id>")
@page_can("images.view")
def edit(image_id):
    image = captures.get(image_id, viewer())
    return render("user/images/edit.html", image=image, form=Form(ImageRename, known=image))


@bp.post("/<image_id>")
@page_can("images.manage")
def update(image_id):
    image = captures.get(image_id, viewer())
    form = Form(ImageRename, known=image)
    if form.submit(lambda **data: captures.rename(image, data.get("name", image.name))):
        say("The image is changed.")
        return go(url_for(".index"))
    return render("user/images/edit.html", "form", status=form.status, image=image, form=form)


@bp.post("/<image_id>/delete")
@page_can("images.delete")
def delete(image_id):
    image = captures.get(image_id, viewer())
    captures.delete(image, actor=actor())
    return did(f"{image.name} is removed.", url_for(".index"))
