"""What happened to the account's resources, and who did what."""

from flask import Blueprint, url_for
from sqlalchemy import select

from panel import deeds, downloads
from panel.auth import permissions
from panel.auth.browser import may, me, page_can, viewer
from panel.db import session
from panel.htmx import go, render
from panel.models import Instance, Task
from panel.paging import Page
from panel.services import audit, events

bp = Blueprint("activity", __name__)

WORDS = {
    "instance.created": ("plus", "was created"),
    "instance.deployed": ("rocket", "was deployed"),
    "instance.reinstalled": ("replace", "was reinstalled"),
    "instance.suspended": ("player-pause", "was suspended"),
    "instance.unsuspended": ("player-play", "was unsuspended"),
    "instance.deleted": ("trash", "was destroyed"),
}


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
    wanted = deeds.wanted(me().timezone, "object_id")
    page = Page(audit.listing(viewer(), **wanted))
    whole = viewer().holds("team.manage")
    return render(
        "user/activity/log.html", "rows", page=page, wanted=wanted, whole=whole, words=deeds.words, thing=deeds.thing
    )


@bp.get("/activity/log/export")
@page_can(permissions.ANY_USER)
def export():
    found = audit.listing(viewer(), **deeds.wanted(me().timezone, "object_id"))
    return downloads.table("activity", audit.EXPORTED, audit.exported(audit.told(found)))


def told(rows):
    """Each event with its drawing, what happened in words, the name of its instance, and whether that still exists."""
    ids = {event.resource_id for event in rows}
    there = dict(session.execute(select(Instance.id, Instance.display_name).where(Instance.id.in_(ids))).all())
    gone = select(Task.resource_id, Task.resource_name).where(Task.resource_id.in_(ids - there.keys()))
    names = dict(session.execute(gone).all()) | there
    return [(event, *words(event), names.get(event.resource_id), event.resource_id in there) for event in rows]


def words(event):
    if event.kind == "instance.status_changed":
        status = event.data.get("status")
        return ("player-play", "started") if status == "running" else ("player-stop", "stopped")
    return WORDS.get(event.kind, ("bell", event.kind.partition(".")[2].replace("_", " ")))
