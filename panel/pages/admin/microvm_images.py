"""Images of micro VMs for operators: the platform's, which they build, and customers'."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import get_current_actor, require_page_permission
from panel.core.db import session
from panel.schemas.microvm_images import AdminMicrovmImageIn, AdminMicrovmImagePatch
from panel.services import hypervisors
from panel.services.microvms import image_builds, images
from panel.web.environment_text import EnvironmentText
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
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
    return form_page(Form(AdminMicrovmImageForm, initial={"is_public": True}))


@bp.post("/new")
@require_page_permission(WRITE_PERMISSION)
def create():
    form = Form(AdminMicrovmImageForm)
    if form.submit(lambda **values: image_builds.create(None, actor=get_current_actor(), **values)):
        return redirect_to(url_for(".show", image_id=form.result.id))
    return form_page(form)


def form_page(form):
    sources = session.scalars(images.select_available()).all()
    locations = session.execute(hypervisors.select_group_names()).all()
    return render(
        "admin/microvm_images/new.html",
        "form",
        status=form.status,
        form=form,
        sources=sources,
        locations=locations,
        minutes=image_builds.MAX_BUILD_MINUTES,
    )


@bp.get("/<image_id>")
@require_page_permission(READ_PERMISSION)
def show(image_id):
    image = images.get(image_id)
    return render("admin/microvm_images/show.html", "live", image=image, build=image.build)


@bp.get("/<image_id>/edit")
@require_page_permission(WRITE_PERMISSION)
def edit(image_id):
    image = images.get(image_id)
    return edit_page(image, Form(choose_patch(image), initial=image))


@bp.post("/<image_id>/edit")
@require_page_permission(WRITE_PERMISSION)
def update(image_id):
    image = images.get(image_id)
    form = Form(choose_patch(image))
    if form.submit(lambda **changes: images.update(image, changes)):
        flash_message(_("Image saved."))
        return redirect_to(url_for(".show", image_id=image_id))
    return edit_page(images.get(image_id), form)


def choose_patch(image):
    return AdminMicrovmImagePatch if image.is_platform else CustomerImagePatch


def edit_page(image, form):
    return render("admin/microvm_images/edit.html", "form", status=form.status, image=image, form=form)


@bp.post("/<image_id>/build")
@require_page_permission(WRITE_PERMISSION)
def build(image_id):
    image_builds.retry(images.get_of_platform(image_id), None, actor=get_current_actor())
    return build_action_response(_("Build requested."), url_for(".show", image_id=image_id))


@bp.post("/<image_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete(image_id):
    image = images.get(image_id)
    name = image.name
    images.delete(image)
    flash_message(_("%(name)s deleted.", name=name))
    return redirect_to(url_for(".index"))
