"""The account's resource packs: contents, usage, and the instances created from them."""

from flask import Blueprint

from panel.auth.browser_session import get_current_access, require_page_permission
from panel.services import instances, resource_packs
from panel.web.htmx import render
from panel.web.page_registry import NavigationEntry
from panel.web.paging import Page

bp = Blueprint("resource_packs", __name__, url_prefix="/resource-packs")
NAVIGATION = NavigationEntry(
    "compute", "Resource packs", "resource_packs.index", icon="package", permission="instances.view", position=20
)
VIEW_PERMISSION = "instances.view"


@bp.get("")
@require_page_permission(VIEW_PERMISSION)
def index():
    page = Page(resource_packs.with_usage(resource_packs.listing(get_current_access())))
    return render("customer/resource_packs/index.html", "rows", page=page)


@bp.get("/<pack_id>")
@require_page_permission(VIEW_PERMISSION)
def show(pack_id):
    pack = resource_packs.get(pack_id, get_current_access())
    page = Page(instances.listing(get_current_access(), pack_id=pack.id))
    return render("customer/resource_packs/show.html", "rows", pack=pack, page=page)
