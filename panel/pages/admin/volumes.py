"""Everybody's volumes."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import actor, page_can
from panel.services import volumes
from panel.web.htmx import did, render
from panel.web.paging import Page

bp = Blueprint("admin_volumes", __name__, url_prefix="/admin/volumes")
READ, WRITE = "admin:volumes:read", "admin:volumes:write"


@bp.get("")
@page_can(READ)
def index():
    search = request.args.get("search", "")[:255]
    return render(
        "admin/volumes/index.html",
        "rows",
        page=Page(volumes.listing(search=search, deleting=True)),
        filtered=bool(search),
    )


@bp.post("/<volume_id>/<any(detach, delete):action>")
@page_can(WRITE)
def act(volume_id, action):
    getattr(volumes, action)(volumes.get(volume_id), actor=actor(), by_operator=True)
    return did(f"The volume is being {action.removesuffix('e')}ed.", url_for(".index"))
