"""What happened to the account's resources."""

from flask import Blueprint
from sqlalchemy import select

from panel.auth.browser import page_can, viewer
from panel.db import session
from panel.htmx import render
from panel.models import Instance, Task
from panel.paging import Page
from panel.services import events

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
@page_can("instances:read")
def index():
    page = Page(events.listing(viewer()))
    return render("user/activity/index.html", "rows", page=page, lines=told(page.rows))


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
