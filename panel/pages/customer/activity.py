"""What happened to the account's resources, and who did what."""

from flask import Blueprint, url_for

from panel.auth import permissions
from panel.auth.browser_session import may, me, page_can, viewer
from panel.services import audit, events
from panel.web import audit_view, csv_export
from panel.web.activity_view import told
from panel.web.htmx import go, render
from panel.web.paging import Page

bp = Blueprint("activity", __name__)


@bp.get("/activity")
@page_can(permissions.ANY_USER)
def index():
    if not may("instances.view"):  # what happened, happened to instances
        return go(url_for(".log"))
    page = Page(events.listing(viewer()))
    return render("user/activity/index.html", "rows", page=page, lines=told(page.rows))


@bp.get("/activity/log")
@page_can(permissions.ANY_USER)
def log():
    wanted = audit_view.wanted(me().timezone, "object_id")
    page = Page(audit.listing(viewer(), **wanted))
    around = {"whole": audit.whole(viewer()), "words": audit_view.words, "thing": audit_view.thing}
    return render("user/activity/log.html", "rows", page=page, wanted=wanted, **around)


@bp.get("/activity/log/export")
@page_can(permissions.ANY_USER)
def export():
    found = audit.listing(viewer(), **audit_view.wanted(me().timezone, "object_id"))
    return csv_export.table("activity", audit.EXPORTED, audit.exported(audit.told(found)))
