"""Labels of events for the activity lists."""

from sqlalchemy import select

from panel.core.db import session
from panel.models import Instance, Task
from panel.web.translation import gettext, lazy_gettext

EVENT_LABELS = {
    "instance.created": ("plus", lazy_gettext("was created")),
    "instance.deployed": ("rocket", lazy_gettext("was deployed")),
    "instance.reinstalled": ("replace", lazy_gettext("was reinstalled")),
    "instance.suspended": ("player-pause", lazy_gettext("was suspended")),
    "instance.unsuspended": ("player-play", lazy_gettext("was unsuspended")),
    "instance.deleted": ("trash", lazy_gettext("was destroyed")),
}


def label_events(rows, has_links=True):
    """Return (event, icon, label, instance name, has link) for each event. Names of deleted instances come from their
    tasks."""
    ids = {event.resource_id for event in rows}
    existing = dict(session.execute(select(Instance.id, Instance.display_name).where(Instance.id.in_(ids))).all())
    names = existing
    if deleted_ids := ids - existing.keys():
        deleted_names = select(Task.resource_id, Task.resource_name).where(Task.resource_id.in_(deleted_ids))
        names = dict(session.execute(deleted_names).all()) | existing
    return [
        (event, *describe_event(event), names.get(event.resource_id), has_links and event.resource_id in existing)
        for event in rows
    ]


def describe_event(event):
    """Return the (icon, label) of an event."""
    if event.kind == "instance.status_changed":
        status = event.data.get("status")
        return (
            ("player-play", lazy_gettext("started"))
            if status == "running"
            else ("player-stop", lazy_gettext("stopped"))
        )
    if event.kind == "alert.firing":
        return "bell", gettext("set off the alert %(rule)s", rule=event.data["rule"])
    if event.kind == "alert.resolved":
        return "circle-check", gettext("no longer sets off the alert %(rule)s", rule=event.data["rule"])
    return EVENT_LABELS.get(event.kind, ("bell", event.kind.partition(".")[2].replace("_", " ")))
