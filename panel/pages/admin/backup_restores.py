"""Restoring a backup to its instance, and what else operators do on an instance's tab of backups."""

from flask import Blueprint, url_for

from panel.auth.browser_session import get_current_actor, require_page_permission
from panel.core.errors import Invalid
from panel.schemas.base import Text
from panel.schemas.instance_backups import BackupRestoreIn
from panel.services import backup_restores, instance_backups, instances
from panel.web.audit_view import audit_label
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.translation import gettext as _
from panel.workflows import backup_chain_reset, backup_restore

bp = Blueprint("admin_backup_restores", __name__, url_prefix="/admin/backups")
WRITE_PERMISSION = "admin:instances:write"


class RestoreForm(BackupRestoreIn):
    """The disk to restore, and the instance's name as confirmation."""

    typed = Text(required=True)


@bp.get("/<backup_id>/restore")
@require_page_permission(WRITE_PERMISSION)
def new(backup_id):
    return form_page(backup_id, Form(RestoreForm))


@bp.post("/<backup_id>/restore")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Restore backup")
def create(backup_id):
    """Restore the backup. Requires the instance's name, because what was written since is lost."""
    form = Form(RestoreForm)
    if form.submit(lambda **values: restore(backup_id, **values)):
        flash_message(_("Restore requested."), "info")
        return redirect_to(tab_url(form.result.resource_id))
    return form_page(backup_id, form, "form")


def restore(backup_id, typed, target_disk_id):
    """Return the task."""
    backup, instance = get_backup_and_instance(backup_id)
    if typed.strip() != instance.display_name:
        raise Invalid(_("Nothing was changed."), typed=_("The name does not match."))
    return backup_restore.run(instance, backup, actor=get_current_actor(), target_disk_id=target_disk_id)


def get_backup_and_instance(backup_id):
    backup = instance_backups.get(backup_id)
    return backup, instances.get(backup.instance_id)


def form_page(backup_id, form, block=None):
    backup, instance = get_backup_and_instance(backup_id)
    problem = backup_restores.find_problem(instance, backup)
    context = {
        "backup": backup,
        "instance": instance,
        "targets": backup_restores.list_possible_targets(instance, backup),
        "error": problem and problem.message,
    }
    return render("admin/instance_backups/restore.html", block, status=form.status, form=form, **context)


@bp.post("/instances/<instance_id>/reset-chain")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Reset backup chain")
def reset_chain(instance_id):
    """Let the next backup of the instance read everything."""
    backup_chain_reset.run(instances.get(instance_id), actor=get_current_actor())
    return build_action_response(_("The next backup reads everything."), tab_url(instance_id))


def tab_url(instance_id):
    return url_for("admin_instances.tab", instance_id=instance_id, tab="backups")
