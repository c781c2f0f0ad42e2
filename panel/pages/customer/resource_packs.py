"""The account's resource packs: what is in them, how much of it is used, and the instances that were made from them."""

from flask import Blueprint

from panel.auth.browser_session import page_can, viewer
from panel.services import instances, resource_packs
from panel.web.htmx import render
from panel.web.paging import Page

bp = Blueprint("resource_packs", __name__, url_prefix="/resource-packs")
VIEW = "instances.view"


@bp.get("")
@page_can(VIEW)
def index():
    page = Page(resource_packs.listing(viewer()))
    resource_packs.weigh(page.rows)
    return render("user/resource_packs/index.html", "rows", page=page)


@bp.get("/<pack_id>")
@page_can(VIEW)
def show(pack_id):
    pack = resource_packs.weigh([resource_packs.get(pack_id, viewer())])[0]
    page = Page(instances.listing(viewer(), pack_id=pack.id))
    return render("user/resource_packs/show.html", "rows", pack=pack, page=page)
