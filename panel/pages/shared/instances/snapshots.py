"""Live-snapshot sessions and snapshots of an instance."""

from flask import abort, request

from panel.auth.browser_session import actor
from panel.core.errors import Invalid
from panel.pages.shared.area import area, at, found, page
from panel.pages.shared.instances.show import TEMPLATES, shown
from panel.schemas.base import In, Text
from panel.schemas.snapshots import SnapshotIn
from panel.services import forges, snapshots
from panel.web.forms import Form
from panel.web.htmx import did, go, render, say

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


@page("POST", "/<instance_id>/snapshots/<name>/delete", can="instances.manage")
def delete_snapshot(instance_id, name):
    instance = found(instance_id)
    snapshots.delete(snapshots.get(instance, name), actor=actor())
    return did("Deletion of the snapshot requested.", at(instance, "snapshots"))


class RollbackForm(In):
    typed = Text(required=True)


@page("GET", "/<instance_id>/snapshots/<name>/rollback", can="instances.manage")
def choose_rollback(instance_id, name):
    return rollback_page(found(instance_id), name, Form(RollbackForm))


@page("POST", "/<instance_id>/snapshots/<name>/rollback", can="instances.manage")
def rollback(instance_id, name):
    """The snapshot's name has to be typed: everything that was written since is lost."""
    instance, form = found(instance_id), Form(RollbackForm)
    if form.submit(lambda typed: roll_back(snapshots.get(instance, name), typed)):
        say("Rollback requested.")
        return go(at(instance, "snapshots"))
    return rollback_page(instance, name, form, "form")


def roll_back(snapshot, typed):
    if typed.strip() != snapshot.name:
        raise Invalid("Nothing was done.", typed="That is not the name of this snapshot.")
    return snapshots.rollback(snapshot, actor=actor())


def rollback_page(instance, name, form, block=None):
    snapshot = snapshots.get(instance, name)
    facts = {"instance": instance, "snapshot": snapshot, "tasks_since": snapshots.tasks_since(snapshot)}
    return render("user/instances/rollback.html", block, status=form.status, form=form, **facts)
