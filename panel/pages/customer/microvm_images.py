"""Images of micro VMs: the list, building one, and the page of one with the log of its build."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import get_current_access, get_current_actor, require_page_permission
from panel.pages.shared.microvm_images import (
    create_image,
    delete_image,
    render_build_form,
    render_edit_form,
    update_image,
)
from panel.schemas.microvm_images import MicrovmImageIn, MicrovmImagePatch
from panel.services import usage
from panel.services.microvms import image_builds, images
from panel.web.environment_text import EnvironmentText
from panel.web.forms import Form
from panel.web.htmx import build_action_response, render
from panel.web.page_registry import NavigationEntry, PaletteAction
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("microvm_images", __name__, url_prefix="/microvms/images")
NAVIGATION = NavigationEntry(
    "compute",
    "Micro VM images",
    "microvm_images.index",
    icon="copy",
    permission="microvm.view",
    position=39,
    is_billed=True,
)
PALETTE_ACTIONS = (PaletteAction("Build a micro VM image", "microvm_images.new", "plus", "microvm.manage", 91),)
VIEW_PERMISSION, MANAGE_PERMISSION, DELETE_PERMISSION = "microvm.view", "microvm.manage", "microvm.delete"


class MicrovmImageForm(MicrovmImageIn):
    envs = EnvironmentText(load_default=None, allow_none=True)


def get_own(image_id):
    return images.get_own(image_id, get_current_access())


@bp.get("")
@require_page_permission(VIEW_PERMISSION)
def index():
    access, search = get_current_access(), request.args.get("search", "")[:255]
    page = Page(images.listing(access, search=search))
    context = {
        "page": page,
        "filtered": bool(search),
        "is_building": any(image.status == "building" for image in page),
        "stored_bytes": image_builds.count_stored_bytes(access.id),
        "maximum_bytes": image_builds.MAX_STORED_BYTES_PER_ACCOUNT,
        "billing_error": usage.billing_error(access),
    }
    return render("customer/microvm_images/index.html", "rows", **context)


@bp.get("/new")
@require_page_permission(MANAGE_PERMISSION)
def new():
    form = Form(MicrovmImageForm, initial={"image_id": request.args.get("source", "")[:36]})
    return render_build_form(get_current_access(), form)


@bp.post("/new")
@require_page_permission(MANAGE_PERMISSION)
def create():
    access = get_current_access()
    usage.ensure_billing_enabled(access)
    return create_image(access, Form(MicrovmImageForm))


@bp.get("/<image_id>")
@require_page_permission(VIEW_PERMISSION)
def show(image_id):
    image = images.get(image_id, get_current_access())
    build, billing_error = None if image.is_platform else image.build, usage.billing_error(get_current_access())
    return render("customer/microvm_images/show.html", "live", image=image, build=build, billing_error=billing_error)


@bp.get("/<image_id>/edit")
@require_page_permission(MANAGE_PERMISSION)
def edit(image_id):
    image = get_own(image_id)
    return render_edit_form(image, Form(MicrovmImagePatch, initial=image))


@bp.post("/<image_id>/edit")
@require_page_permission(MANAGE_PERMISSION)
def update(image_id):
    return update_image(get_own(image_id), MicrovmImagePatch)


@bp.post("/<image_id>/build")
@require_page_permission(MANAGE_PERMISSION)
def build(image_id):
    access = get_current_access()
    usage.ensure_billing_enabled(access)
    image_builds.retry(get_own(image_id), access, actor=get_current_actor())
    return build_action_response(_("Build requested."), url_for(".show", image_id=image_id))


@bp.post("/<image_id>/delete")
@require_page_permission(DELETE_PERMISSION)
def delete(image_id):
    return delete_image(get_own(image_id))
