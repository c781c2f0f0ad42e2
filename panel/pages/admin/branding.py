"""Brands: the default one and those of further host names, with previews."""

from flask import Blueprint, g, request, url_for

from panel.auth.browser_session import require_page_permission
from panel.core.errors import Invalid
from panel.core.messages import message
from panel.schemas.base import Bool, Text
from panel.schemas.brands import MAX_SIGN_IN_TEXT, BrandHost, BrandPatch
from panel.services import brands
from panel.web.forms import Form
from panel.web.htmx import flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, PaletteAction
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("admin_branding", __name__, url_prefix="/admin/branding")
READ_PERMISSION, WRITE_PERMISSION = "admin:settings:read", "admin:settings:write"
NAVIGATION = NavigationEntry(
    "control", "Branding", "admin_branding.index", icon="flag", permission=READ_PERMISSION, position=32
)
PALETTE_ACTIONS = (
    PaletteAction("Add brand", "admin_branding.new", icon="plus", permission=WRITE_PERMISSION, position=320),
)
IMAGE_KINDS = ("logo", "favicon")


class BrandForm(BrandPatch):
    """BrandPatch, but an empty text clears it, and a check mark removes an image."""

    sign_in_text = Text(maximum=MAX_SIGN_IN_TEXT, lines=True, load_default="")
    remove_logo = Bool(load_default=False)
    remove_favicon = Bool(load_default=False)


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    default = brands.load()[None]
    return render("admin/branding/index.html", "rows", page=Page(brands.listing()), default=default)


@bp.get("/new")
@require_page_permission(WRITE_PERMISSION)
def new():
    return brand_page(None, Form(BrandForm, BrandHost), None)


@bp.post("/new")
@require_page_permission(WRITE_PERMISSION)
def create():
    form = Form(BrandForm, BrandHost)
    if form.submit(lambda **data: save(None, **data)):
        flash_message(_("Brand %(name)s added.", name=form.result.name))
        return redirect_to(url_for(".edit", brand_id=form.result.id))
    return brand_page(None, form, "form")


@bp.get("/default")
@require_page_permission(READ_PERMISSION)
def edit_default():
    identity = brands.load()[None]
    return brand_page(identity, Form(BrandForm, initial=identity), None)


@bp.post("/default")
@require_page_permission(WRITE_PERMISSION)
def change_default():
    form = Form(BrandForm)
    if form.submit(lambda **data: save(brands.find_row(None), **data)):
        flash_message(_("Brand saved."))
        return redirect_to(url_for(".edit_default"))
    return brand_page(brands.load()[None], form, "form")


@bp.get("/<brand_id>")
@require_page_permission(READ_PERMISSION)
def edit(brand_id):
    row = brands.get(brand_id)
    return brand_page(brands.build_identity(row), Form(BrandForm, BrandHost, initial=row), None, row=row)


@bp.post("/<brand_id>")
@require_page_permission(WRITE_PERMISSION)
def change(brand_id):
    form, row = Form(BrandForm, BrandHost), brands.get(brand_id)
    if form.submit(lambda **data: save(row, **data)):
        flash_message(_("Brand saved."))
        return redirect_to(url_for(".edit", brand_id=brand_id))
    row = brands.get(brand_id)
    return brand_page(brands.build_identity(row), form, "form", row=row)


@bp.get("/<brand_id>/preview")
@require_page_permission(READ_PERMISSION)
def preview(brand_id):
    """Show the sign-in page and samples in the looks of the brand."""
    g.brand = brands.build_identity(brands.get(brand_id))
    return render("admin/branding/preview.html")


@bp.get("/default/preview")
@require_page_permission(READ_PERMISSION)
def preview_default():
    g.brand = brands.load()[None]
    return render("admin/branding/preview.html")


@bp.post("/<brand_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete(brand_id):
    row = brands.get(brand_id)
    if row.host is None:
        raise Invalid(message("The default brand cannot be deleted."))
    brands.delete_brand(row)
    flash_message(_("Brand %(name)s deleted.", name=row.name))
    return redirect_to(url_for(".index"))


def save(row, *, remove_logo=False, remove_favicon=False, **data):
    """Save the form with its files. A new image replaces the old one; a check mark removes it."""
    removed = {"logo": remove_logo, "favicon": remove_favicon}
    for kind in IMAGE_KINDS:
        file = request.files.get(kind)
        if file and file.filename:
            data[kind] = file.read()
        elif removed[kind]:
            data[kind] = None
    return brands.save(row, **data)


def brand_page(identity, form, block, row=None):
    context = {"brand": identity, "form": form, "row": row}
    if row:
        context["accounts"] = brands.count_accounts(row)
    return render("admin/branding/edit.html", block, status=form.status, **context)
