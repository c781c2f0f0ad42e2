"""ISOs, which can be inserted into the drives of instances."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import get_current_access, get_current_actor, require_page_permission
from panel.models import Iso
from panel.schemas.isos import IsoIn
from panel.services import isos
from panel.services.media import downloads
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("isos", __name__, url_prefix="/isos")
NAVIGATION = NavigationEntry("storage", "ISOs", "isos.index", icon="disc", permission="isos.view", position=30)
SEARCH_RESULTS = (SearchResults("iso", "ISOs", icon="disc", url=lambda row: url_for("isos.index", search=row.name)),)
ORDERS = {"name": Iso.name}


@bp.get("")
@require_page_permission("isos.view")
def index():
    search = request.args.get("search", "")[:255]
    page = Page(isos.listing(get_current_access(), search=search), orders=ORDERS)
    return render("customer/isos/index.html", "rows", page=page, filtered=bool(search))


@bp.get("/new")
@require_page_permission("isos.manage")
def new():
    return render("customer/isos/new.html", form=Form(IsoIn))


@bp.post("/new")
@require_page_permission("isos.manage")
def create():
    form = Form(IsoIn)
    if form.submit(lambda **data: isos.create(get_current_access(), actor=get_current_actor(), **data)):
        flash_message(_("Download of %(name)s requested.", name=form.result.name))
        return redirect_to(url_for(".index"))
    return render("customer/isos/new.html", "form", status=form.status, form=form)


@bp.post("/<iso_id>/retry")
@require_page_permission("isos.manage")
def retry(iso_id):
    iso = isos.get(iso_id, get_current_access(), own=True)
    downloads.retry(iso, actor=get_current_actor())
    return build_action_response(_("Download of %(name)s requested again.", name=iso.name), url_for(".index"))


@bp.post("/<iso_id>/delete")
@require_page_permission("isos.delete")
def delete(iso_id):
    iso = isos.get(iso_id, get_current_access(), own=True)
    isos.delete(iso, actor=get_current_actor())
    return build_action_response(_("%(name)s deleted.", name=iso.name), url_for(".index"))
