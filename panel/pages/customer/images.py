"""Images that customers captured from their instances."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import get_current_access, get_current_actor, require_page_permission
from panel.models import Image
from panel.schemas.image_captures import ImageRename
from panel.services import image_captures
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("images", __name__, url_prefix="/images")
NAVIGATION = NavigationEntry("storage", "Images", "images.index", icon="copy", permission="images.view", position=20)
SEARCH_RESULTS = (
    SearchResults("image", "Images", icon="copy", url=lambda row: url_for("images.edit", image_id=row.id)),
)
ORDERS = {"created": Image.id}


@bp.get("")
@require_page_permission("images.view")
def index():
    search = request.args.get("search", "")[:255]
    page = Page(image_captures.listing(get_current_access(), search=search), orders=ORDERS)
    return render("customer/images/index.html", "rows", page=page, filtered=bool(search))


@bp.get("/<image_id>")
@require_page_permission("images.view")
def edit(image_id):
    image = image_captures.get(image_id, get_current_access())
    return render("customer/images/edit.html", image=image, form=Form(ImageRename, initial=image))


@bp.post("/<image_id>")
@require_page_permission("images.manage")
def update(image_id):
    image = image_captures.get(image_id, get_current_access())
    form = Form(ImageRename, initial=image)
    if form.submit(lambda **data: image_captures.rename(image, data.get("name", image.name))):
        flash_message(_("Image saved."))
        return redirect_to(url_for(".index"))
    return render("customer/images/edit.html", "form", status=form.status, image=image, form=form)


@bp.post("/<image_id>/delete")
@require_page_permission("images.delete")
def delete(image_id):
    image = image_captures.get(image_id, get_current_access())
    image_captures.delete(image, actor=get_current_actor())
    return build_action_response(_("%(name)s deleted.", name=image.name), url_for(".index"))
