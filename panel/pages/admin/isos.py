"""The ISO library, and on which hypervisors each file is."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import get_current_actor, require_page_permission
from panel.models import Iso
from panel.schemas.isos import AdminIsoIn, IsoPatch
from panel.services import isos
from panel.services.media import downloads
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("admin_isos", __name__, url_prefix="/admin/isos")
NAVIGATION = NavigationEntry(
    "catalog", "ISOs", "admin_isos.index", icon="disc", permission="admin:images:read", position=50
)
SEARCH_RESULTS = (
    SearchResults("iso", "ISOs", icon="disc", url=lambda row_id: url_for("admin_isos.show", iso_id=row_id)),
)
READ_PERMISSION, WRITE_PERMISSION = "admin:images:read", "admin:images:write"
ORDERS = {"name": Iso.name}


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    search = request.args.get("search", "")[:255]
    page = Page(isos.listing(search=search), orders=ORDERS)
    return render("admin/isos/index.html", "rows", page=page, filtered=bool(search))


@bp.get("/new")
@require_page_permission(WRITE_PERMISSION)
def new():
    return render("admin/isos/new.html", form=Form(AdminIsoIn, initial={"public": True}))


@bp.post("/new")
@require_page_permission(WRITE_PERMISSION)
def create():
    form = Form(AdminIsoIn)
    if form.submit(lambda **data: isos.create(actor=get_current_actor(), **data)):
        flash_message(_("Download of %(name)s started.", name=form.result.name))
        return redirect_to(url_for(".show", iso_id=form.result.id))
    return render("admin/isos/new.html", "form", status=form.status, form=form)


@bp.get("/<iso_id>")
@require_page_permission(READ_PERMISSION)
def show(iso_id):
    iso = isos.get(iso_id)
    return render("admin/isos/show.html", "live", iso=iso, form=Form(IsoPatch, initial=iso))


@bp.post("/<iso_id>")
@require_page_permission(WRITE_PERMISSION)
def update(iso_id):
    iso = isos.get(iso_id)
    form = Form(IsoPatch, initial=iso)
    if form.submit(lambda **data: isos.update(iso, **data)):
        flash_message(_("ISO %(name)s saved.", name=iso.name))
        return redirect_to(url_for(".show", iso_id=iso_id))
    return render("admin/isos/show.html", "form", status=form.status, iso=isos.get(iso_id), form=form)


@bp.post("/<iso_id>/retry")
@require_page_permission(WRITE_PERMISSION)
def retry(iso_id):
    iso = isos.get(iso_id)
    downloads.retry(iso, actor=get_current_actor())
    return build_action_response(
        _("Download restarted on hypervisors without the file."), url_for(".show", iso_id=iso_id)
    )


@bp.post("/<iso_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete(iso_id):
    iso = isos.get(iso_id)
    isos.delete(iso, actor=get_current_actor())
    flash_message(_("ISO %(name)s removed.", name=iso.name))
    return redirect_to(url_for(".index"))
