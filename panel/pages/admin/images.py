"""Images from which machines are installed."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import get_current_actor, require_page_permission
from panel.models import Image
from panel.pages.admin import labels
from panel.schemas.constants import IMAGE_PURPOSES
from panel.schemas.images import ImagePatch
from panel.services import catalog, image_catalog, images
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("admin_images", __name__, url_prefix="/admin/images")
NAVIGATION = NavigationEntry(
    "catalog", "Images", "admin_images.index", icon="copy", permission="admin:images:read", position=40
)
SEARCH_RESULTS = (
    SearchResults("image", "Images", icon="copy", url=lambda row_id: url_for("admin_images.edit", image_id=row_id)),
)
READ_PERMISSION, WRITE_PERMISSION = "admin:images:read", "admin:images:write"
ORDERS = {"added": Image.id}


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    purpose = request.args.get("purpose")
    filters = {
        "search": request.args.get("search", "")[:255],
        "purpose": purpose if purpose in IMAGE_PURPOSES else None,
    }
    page = Page(catalog.select_images(**filters), orders=ORDERS)
    return render(
        "admin/images/index.html",
        "rows",
        page=page,
        filtered=any(filters.values()),
        purposes=labels.IMAGE_PURPOSES.items(),
        image_statuses=labels.IMAGE_STATUSES,
    )


@bp.get("/<image_id>")
@require_page_permission(READ_PERMISSION)
def edit(image_id):
    image = catalog.get_image(image_id)
    return form_page(Form(ImagePatch, initial={name: getattr(image, name) for name in ImagePatch().fields}), image)


@bp.post("/<image_id>")
@require_page_permission(WRITE_PERMISSION)
def update(image_id):
    image = catalog.get_image(image_id)
    form = Form(ImagePatch)
    if form.submit(lambda **data: catalog.update_image(image, **data)):
        flash_message(_("Image %(name)s saved.", name=image.label))
        return redirect_to(url_for(".index"))
    return form_page(form, image)


def form_page(form, image):
    context = {
        "image": image,
        "image_statuses": labels.IMAGE_STATUSES,
        "holders": catalog.list_image_holders(image),
        "purposes": list(iter_purposes(image)),
    }
    return render("admin/images/edit.html", "form", status=form.status, form=form, **context)


def iter_purposes(image):
    """Yield the purposes for the form. The purpose of a captured image is fixed, and no other image can get it."""
    captured = image.account_id is not None
    for purpose, label in labels.IMAGE_PURPOSES.items():
        if purpose == "user" and (captured or image.purpose == "user"):
            yield purpose, label
        elif purpose != "user":
            yield purpose, label, _("not available for captured images") if captured else ""


@bp.post("/<image_id>/on")
@require_page_permission(WRITE_PERMISSION)
def turn_on(image_id):
    return set_enabled(image_id, True)


@bp.post("/<image_id>/off")
@require_page_permission(WRITE_PERMISSION)
def turn_off(image_id):
    return set_enabled(image_id, False)


def set_enabled(image_id, on):
    image = catalog.update_image(catalog.get_image(image_id), enabled=on)
    message = _("Image %(name)s turned on.", name=image.label)
    if not image.enabled:
        message = _("Image %(name)s turned off.", name=image.label)
    return build_action_response(message, url_for(".index"))


@bp.post("/<image_id>/retry")
@require_page_permission(WRITE_PERMISSION)
def retry(image_id):
    images.retry(catalog.get_image(image_id), actor=get_current_actor())
    return build_action_response(_("Download restarted."), url_for(".edit", image_id=image_id))


@bp.post("/<image_id>/release")
@require_page_permission(WRITE_PERMISSION)
def release(image_id):
    image = image_catalog.update_to_release(catalog.get_image(image_id), actor=get_current_actor())
    flash_message(_("Update of %(name)s started.", name=image.label))
    return redirect_to(url_for(".edit", image_id=image_id))


@bp.post("/<image_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete(image_id):
    image = catalog.get_image(image_id)
    images.delete(image, actor=get_current_actor())
    flash_message(_("Image %(name)s removed.", name=image.label))
    return redirect_to(url_for(".index"))
