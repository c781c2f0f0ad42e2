"""Images: what machines are made from."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import actor, page_can
from panel.schemas.constants import PURPOSES
from panel.schemas.images import ImagePatch
from panel.services import catalog, image_catalog, images
from panel.web.formatting import worded
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say
from panel.web.paging import Page

bp = Blueprint("admin_images", __name__, url_prefix="/admin/images")
READ, WRITE = "admin:images:read", "admin:images:write"


@bp.get("")
@page_can(READ)
def index():
    purpose = request.args.get("purpose")
    wanted = {"search": request.args.get("search", "")[:255], "purpose": purpose if purpose in PURPOSES else None}
    page = Page(catalog.images(**wanted))
    return render(
        "admin/images/index.html", "rows", page=page, filtered=any(wanted.values()), purposes=worded(PURPOSES)
    )


@bp.get("/<image_id>")
@page_can(READ)
def edit(image_id):
    image = catalog.get_image(image_id)
    return form_page(Form(ImagePatch, known={name: getattr(image, name) for name in ImagePatch().fields}), image)


@bp.post("/<image_id>")
@page_can(WRITE)
def update(image_id):
    image = catalog.get_image(image_id)
    form = Form(ImagePatch)
    if form.submit(lambda **data: catalog.update_image(image, **data)):
        say(f"{image.label} is changed.")
        return go(url_for(".index"))
    return form_page(form, image)


def form_page(form, image):
    context = {"image": image, "holders": catalog.holders(image), "purposes": list(purposes_for(image))}
    return render("admin/images/edit.html", "form", status=form.status, form=form, **context)


def purposes_for(image):
    """A captured image keeps its purpose; no other can become one."""
    captured = image.account_id is not None
    for word, label in worded(PURPOSES):
        if word == "user" and (captured or image.purpose == "user"):
            yield word, label
        elif word != "user":
            yield word, label, "captured images keep theirs" if captured else ""


@bp.post("/<image_id>/on")
@page_can(WRITE)
def turn_on(image_id):
    return switched(image_id, True)


@bp.post("/<image_id>/off")
@page_can(WRITE)
def turn_off(image_id):
    return switched(image_id, False)


def switched(image_id, on):
    image = catalog.update_image(catalog.get_image(image_id), enabled=on)
    words = "can be chosen" if image.enabled else "cannot be chosen any more"
    return did(f"{image.label} {words}.", url_for(".index"))


@bp.post("/<image_id>/retry")
@page_can(WRITE)
def retry(image_id):
    images.retry(catalog.get_image(image_id), actor=actor())
    return did("The download begins anew.", url_for(".edit", image_id=image_id))


@bp.post("/<image_id>/release")
@page_can(WRITE)
def release(image_id):
    image = image_catalog.release(catalog.get_image(image_id), actor=actor())
    say(f"{image.label} is brought up to date.")
    return go(url_for(".edit", image_id=image_id))


@bp.post("/<image_id>/delete")
@page_can(WRITE)
def delete(image_id):
    image = catalog.get_image(image_id)
    images.delete(image, actor=actor())
    say(f"{image.label} is removed.")
    return go(url_for(".index"))
