"""Live-snapshot sessions and snapshots of an instance."""

from flask import abort, request, url_for

from panel.auth.browser import actor, page_can, viewer
from panel.forms import Form
from panel.htmx import did, go, render, say
from panel.schemas.snapshots import SnapshotIn
from panel.services import forges, instances, snapshots
from panel.user.instances import bp
from panel.user.instances.show import shown

DONE = {
    "enable": "The live session is being created.",
    "commit": "The changes are being kept.",
    "discard": "The changes are being thrown away.",
}


@bp.post("/<instance_id>/forge/<action>")
@page_can("instances.manage")
def forge(instance_id, action):
    if action not in DONE:
        abort(404)
    instance = instances.get(instance_id, viewer())
    chosen = {"disk_ids": request.form.getlist("disk_ids")} if action == "enable" else {}
    getattr(forges, action)(instance, actor=actor(), **chosen)
    return did(DONE[action], url_for(".tab", instance_id=instance.id, tab="snapshots"))


@bp.post("/<instance_id>/snapshots/take")
@page_can("instances.manage")
def take(instance_id):
    instance, form = instances.get(instance_id, viewer()), Form(SnapshotIn)
    if form.submit(lambda **wanted: snapshots.create(instance, actor=actor(), **wanted)):
        say("The snapshot is being taken.")
        return go(url_for(".tab", instance_id=instance_id, tab="snapshots"))
    found = shown(instance_id, "snapshots", form=form)
    return render("user/instances/show.html", "live", status=form.status, **found)


@bp.post("/<instance_id>/snapshots/<name>/<any(rollback, delete):action>")
@page_can("instances.manage")
def use_snapshot(instance_id, name, action):
    found = snapshots.get(instances.get(instance_id, viewer()), name)
    getattr(snapshots, action)(found, actor=actor())
    words = {"rollback": "The instance returns to the snapshot.", "delete": "The snapshot is being deleted."}
    return did(words[action], url_for(".tab", instance_id=instance_id, tab="snapshots"))
