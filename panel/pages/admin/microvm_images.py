"""Images of micro VMs for operators: the platform's, which they build, and customers'."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import get_current_actor, require_page_permission
from panel.pages.shared.microvm_images import (
    create_image,
    delete_image,
    render_build_form,
    render_edit_form,
    update_image,
)
from panel.schemas.microvm_images import AdminMicrovmImageIn, AdminMicrovmImagePatch
from panel.services.microvms import image_builds, images
from panel.web.environment_text import EnvironmentText
from panel.web.forms import Form
from panel.web.htmx import build_action_response, render
from panel.web.page_registry import NavigationEntry
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("admin_microvm_images", __name__, url_prefix="/admin/microvms/images")
NAVIGATION = NavigationEntry(
    "catalog",
    "Micro VM images",
    "admin_microvm_images.index",
    icon="copy",
    permission="admin:microvm:read",
    position=45,
)
READ_PERMISSION, WRITE_PERMISSION = "admin:microvm:read", "admin:microvm:write"
OWNERS = ("platform", "customers")


class AdminMicrovmImageForm(AdminMicrovmImageIn):
    envs = EnvironmentText(load_default=None, allow_none=True)


class CustomerImagePatch(AdminMicrovmImagePatch):
    """What operators change of a customer's image."""

    class Meta(AdminMicrovmImagePatch.Meta):
        exclude = ("aliases", "is_public")


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    owner = request.args.get("owner") if request.args.get("owner") in OWNERS else None
    filters = {"search": request.args.get("search", "")[:255], "owner": owner}
    page = Page(images.listing_all(**filters))
    context = {
        "page": page,
        "filtered": any(filters.values()),
        "is_building": any(image.status == "building" for image in page),
    }
    return render("admin/microvm_images/index.html", "rows", **context)


@bp.get("/new")
@require_page_permission(WRITE_PERMISSION)
def new():
    return render_build_form(None, Form(AdminMicrovmImageForm, initial={"is_public": True}))


@bp.post("/new")
@require_page_permission(WRITE_PERMISSION)
def create():
    return create_image(None, Form(AdminMicrovmImageForm))


@bp.get("/<image_id>")
@require_page_permission(READ_PERMISSION)
def show(image_id):
    image = images.get(image_id)
    return render("admin/microvm_images/show.html", "live", image=image, build=image.build)


@bp.get("/<image_id>/edit")
@require_page_permission(WRITE_PERMISSION)
def edit(image_id):
    image = images.get(image_id)
    return render_edit_form(image, Form(choose_patch(image), initial=image))


@bp.post("/<image_id>/edit")
@require_page_permission(WRITE_PERMISSION)
def update(image_id):
    image = images.get(image_id)
    return update_image(image, choose_patch(image))


def choose_patch(image):
    return AdminMicrovmImagePatch if image.is_platform else CustomerImagePatch


@bp.post("/<image_id>/build")
@require_page_permission(WRITE_PERMISSION)
def build(image_id):
    image_builds.retry(images.get_of_platform(image_id), None, actor=get_current_actor())
    return build_action_response(_("Build requested."), url_for(".show", image_id=image_id))


@bp.post("/<image_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete(image_id):
    return delete_image(images.get(image_id))
