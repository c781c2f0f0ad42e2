"""Restoring a backup on a backup server to a new instance."""

from flask import Blueprint, url_for

from panel.auth.browser_session import get_current_actor, require_page_permission
from panel.core.db import session
from panel.schemas.instance_backups import RestoreToNewIn
from panel.services import catalog, hypervisors, instance_backups
from panel.web.audit_view import audit_label
from panel.web.forms import Form
from panel.web.htmx import flash_message, redirect_to, render
from panel.web.translation import gettext as _
from panel.workflows import restore_to_new

bp = Blueprint("admin_restores_to_new", __name__, url_prefix="/admin/backups")
WRITE_PERMISSION = "admin:instances:write"


@bp.get("/<backup_id>/restore-to-new")
@require_page_permission(WRITE_PERMISSION)
def new(backup_id):
    backup = instance_backups.get(backup_id)
    initial = {"hostname": backup.recorded_hostname, "display_name": backup.recorded_name}
    if source := backup.instance:
        initial |= {"hypervisor_id": source.hypervisor_id, "plan_id": source.plan_id}
    return form_page(backup, Form(RestoreToNewIn, initial=initial))


@bp.post("/<backup_id>/restore-to-new")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Restore backup to new instance")
def create(backup_id):
    instance_id = instance_backups.get(backup_id).instance_id
    form = Form(RestoreToNewIn)
    if form.submit(lambda **values: restore_to_new.run(instance_id, backup_id, actor=get_current_actor(), **values)):
        flash_message(_("Restore to a new instance requested."), "info")
        return redirect_to(url_for("admin_instances.tab", instance_id=form.result[0].id, tab="backups"))
    return form_page(instance_backups.get(backup_id), form, "form")


def form_page(backup, form, block=None):
    plans = session.execute(catalog.select_plans_by_name(""))
    context = {
        "backup": backup,
        "hypervisors": session.execute(hypervisors.select_names()).all(),
        "plans": [(plan_id, f"{group_name} {name}") for plan_id, name, group_name in plans],
    }
    return render("admin/instance_backups/restore_to_new.html", block, status=form.status, form=form, **context)
