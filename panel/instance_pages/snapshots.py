"""Live-snapshot sessions and snapshots of an instance."""

from flask import abort, request

from panel.auth.browser import actor
from panel.forms import Form
from panel.htmx import did, go, render, say
from panel.instance_pages.show import TEMPLATES, shown
from panel.instance_pages.sides import area, at, found, page
from panel.schemas.snapshots import SnapshotIn
from panel.services import forges, snapshots

DONE = {
    "enable": "Start of the test session requested.",
    "commit": "Commit of the changes requested.",
    "discard": "Discard of the changes requested.",
}


@page("POST", "/<instance_id>/forge/<action>", can="instances.manage")
def forge(instance_id, action):
    if action not in DONE:
        abort(404)
    instance = found(instance_id)
    chosen = {"disk_ids": request.form.getlist("disk_ids")} if action == "enable" else {}
    getattr(forges, action)(instance, actor=actor(), **chosen)
    return did(DONE[action], at(instance, "snapshots"))


@page("POST", "/<instance_id>/snapshots/take", can="instances.manage")
def take(instance_id):
    instance, form = found(instance_id), Form(SnapshotIn)
    if form.submit(lambda **wanted: snapshots.create(instance, actor=actor(), **wanted)):
        say("Snapshot requested.")
        return go(at(instance, "snapshots"))
    tab = shown(instance_id, "snapshots", form=form)
    return render(TEMPLATES[area()], "live", status=form.status, **tab)


@page("POST", "/<instance_id>/snapshots/<name>/<any(rollback, delete):action>", can="instances.manage")
def use_snapshot(instance_id, name, action):
    instance = found(instance_id)
    getattr(snapshots, action)(snapshots.get(instance, name), actor=actor())
    words = {"rollback": "Rollback requested.", "delete": "Deletion of the snapshot requested."}
    return did(words[action], at(instance, "snapshots"))
