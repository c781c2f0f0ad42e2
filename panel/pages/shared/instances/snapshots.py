"""Live-snapshot sessions and snapshots of an instance."""

from flask import abort, request

from panel.auth.browser_session import get_current_actor
from panel.core import clock
from panel.core.errors import Invalid
from panel.pages.shared.area import get_endpoint_prefix, get_instance, route, tab_url
from panel.pages.shared.instances.show import INSTANCE_TEMPLATES, build_context
from panel.schemas.base import In, Text
from panel.schemas.snapshots import SnapshotIn
from panel.services import forges, metrics, snapshots
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

SESSION_ACTION_MESSAGES = {
    "enable": lazy_gettext("Start of the test session requested."),
    "commit": lazy_gettext("Commit of the changes requested."),
    "discard": lazy_gettext("Discard of the changes requested."),
}


@route("POST", "/<instance_id>/forge/<action>", can="instances.manage")
def forge(instance_id, action):
    if action not in SESSION_ACTION_MESSAGES:
        abort(404)
    instance = get_instance(instance_id)
    options = {"disk_ids": request.form.getlist("disk_ids")} if action == "enable" else {}
    getattr(forges, action)(instance, actor=get_current_actor(), **options)
    return build_action_response(SESSION_ACTION_MESSAGES[action], tab_url(instance, "snapshots"))


@route("POST", "/<instance_id>/snapshots/take", can="instances.manage")
def take(instance_id):
    instance, form = get_instance(instance_id), Form(SnapshotIn)
    if form.submit(lambda **values: snapshots.create(instance, actor=get_current_actor(), **values)):
        flash_message(_("Snapshot requested."))
        return redirect_to(tab_url(instance, "snapshots"))
    tab = build_context(instance_id, "snapshots", form=form)
    return render(INSTANCE_TEMPLATES[get_endpoint_prefix()], "live", status=form.status, **tab)


@route("POST", "/<instance_id>/snapshots/<name>/delete", can="instances.manage")
def delete_snapshot(instance_id, name):
    instance = get_instance(instance_id)
    snapshots.delete(snapshots.get(instance, name), actor=get_current_actor())
    return build_action_response(_("Deletion of the snapshot requested."), tab_url(instance, "snapshots"))


class RollbackForm(In):
    typed = Text(required=True)


@route("GET", "/<instance_id>/snapshots/<name>/rollback", can="instances.manage")
def choose_rollback(instance_id, name):
    return rollback_page(get_instance(instance_id), name, Form(RollbackForm))


@route("POST", "/<instance_id>/snapshots/<name>/rollback", can="instances.manage")
def rollback(instance_id, name):
    """Roll back. Requires the snapshot's name, because all later data is lost."""
    instance, form = get_instance(instance_id), Form(RollbackForm)
    if form.submit(lambda typed: confirm_rollback(snapshots.get(instance, name), typed)):
        flash_message(_("Rollback requested."))
        return redirect_to(tab_url(instance, "snapshots"))
    return rollback_page(instance, name, form, "form")


def confirm_rollback(snapshot, typed):
    if typed.strip() != snapshot.name:
        raise Invalid(_("Nothing was changed."), typed=_("The name does not match."))
    return snapshots.rollback(snapshot, actor=get_current_actor())


def rollback_page(instance, name, form, block=None):
    snapshot = snapshots.get(instance, name)
    context = {
        "instance": instance,
        "snapshot": snapshot,
        "seconds_since": (clock.now() - snapshot.created_at).total_seconds(),
        "bytes_written": metrics.count_written_bytes(instance, snapshot.created_at),
        "tasks_since": snapshots.count_tasks_since(snapshot),
    }
    return render("customer/instances/rollback.html", block, status=form.status, form=form, **context)
