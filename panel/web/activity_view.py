"""What happened, in words that people read."""

from sqlalchemy import select

from panel.core.db import session
from panel.models import Instance, Task

EVENT_LABELS = {
    "instance.created": ("plus", "was created"),
    "instance.deployed": ("rocket", "was deployed"),
    "instance.reinstalled": ("replace", "was reinstalled"),
    "instance.suspended": ("player-pause", "was suspended"),
    "instance.unsuspended": ("player-play", "was unsuspended"),
    "instance.deleted": ("trash", "was destroyed"),
}


def with_labels(rows, has_links=True):
    """Each event with its drawing, what happened in words, the name of its instance, and whether that can be opened."""
    ids = {event.resource_id for event in rows}
    there = dict(session.execute(select(Instance.id, Instance.display_name).where(Instance.id.in_(ids))).all())
    gone = select(Task.resource_id, Task.resource_name).where(Task.resource_id.in_(ids - there.keys()))
    names = dict(session.execute(gone).all()) | there
    return [
        (event, *describe_event(event), names.get(event.resource_id), has_links and event.resource_id in there)
        for event in rows
    ]


def describe_event(event):
    if event.kind == "instance.status_changed":
        status = event.data.get("status")
        return ("player-play", "started") if status == "running" else ("player-stop", "stopped")
    return EVENT_LABELS.get(event.kind, ("bell", event.kind.partition(".")[2].replace("_", " ")))
