"""Copies of backups in second destinations."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import get_current_actor, require_page_permission
from panel.core.db import session
from panel.schemas.instance_backups import COPY_STATUSES
from panel.services import backup_copies, backup_destinations
from panel.web.audit_view import audit_label
from panel.web.htmx import build_action_response, render
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("admin_backup_copies", __name__, url_prefix="/admin/backup-copies")
READ_PERMISSION, WRITE_PERMISSION = "admin:instances:read", "admin:instances:write"


@bp.get("")
@require_page_permission(READ_PERMISSION)
def listing():
    status = request.args.get("status") if request.args.get("status") in COPY_STATUSES else None
    destination_id = request.args.get("backup_storage_id", "")[:36] or None
    page = Page(backup_copies.listing(status=status, backup_storage_id=destination_id))
    context = {
        "filtered": bool(status or destination_id),
        "destinations": session.execute(backup_destinations.select_copy_targets(None)).all(),
    }
    return render("admin/instance_backups/copies.html", "rows", page=page, **context)


@bp.post("/<copy_id>/retry")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Copy backup again")
def retry(copy_id):
    backup_copies.retry(backup_copies.get(copy_id), actor=get_current_actor())
    return build_action_response(_("Copy requested."), url_for(".listing"), "info")


@bp.post("/<copy_id>/recover")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Recover backup from copy")
def recover(copy_id):
    backup = backup_copies.recover(backup_copies.get(copy_id))
    return build_action_response(_("Backup recovered."), url_for("admin_instance_backups.show", backup_id=backup.id))


@bp.post("/<copy_id>/delete")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Delete copy of backup")
def delete(copy_id):
    backup_copies.delete(backup_copies.get(copy_id), actor=get_current_actor())
    return build_action_response(_("Removal of the copy requested."), url_for(".listing"), "info")
