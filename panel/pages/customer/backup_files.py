"""The files of a backup: folders and downloads. Requests do not wait for the machine that reads the backup."""

from datetime import UTC, datetime

from flask import Blueprint, request, url_for

from panel.auth.browser_session import get_current_access, get_current_actor, require_page_permission
from panel.core.errors import NotFound
from panel.pages.shared.area import get_instance, tab_url
from panel.pages.shared.instances.media import find_error_message
from panel.schemas.backup_files import MAX_PATH_CHARACTERS
from panel.services import backup_files, instance_backups
from panel.web.audit_view import audit_label
from panel.web.file_download import build_file_response
from panel.web.htmx import build_action_response, render
from panel.web.translation import gettext as _
from panel.workflows.backup_files import ensure_done

bp = Blueprint("backup_files", __name__, url_prefix="/backups")
FILES_PERMISSION = "instances.restore"
MAX_SECONDS = 253_402_300_799
"""The end of the year 9999, the last that can be shown."""
TEMPLATE = "customer/backup_files/show.html"


def get_own(backup_id):
    backup = instance_backups.get(backup_id, get_current_access())
    if backup.instance is None:
        raise NotFound(_("The instance of this backup does not exist any more."))
    return backup


def get_path(source, name="path"):
    return source.get(name, "").strip("/")[:MAX_PATH_CHARACTERS]


def build_url(backup, path, after=""):
    places = {name: value for name, value in (("path", path), ("after", after)) if value}
    return url_for(".show", backup_id=backup.id, **places)


def build_context(backup, path, after, listing=None):
    row = backup_files.find_of_backup(backup)
    if row and row.state == "ready" and listing is None:
        listing = backup_files.find_list(row, path, after)
    names = path.split("/") if path else []
    return {
        "backup": backup,
        "instance": backup.instance,
        "files": row,
        "open_error": None if row and row.state != "failed" else find_open_error(backup),
        "task": backup_files.find_task(row) if row and row.state == "preparing" else None,
        "path": path,
        "after": after,
        "parents": [(name, build_url(backup, "/".join(names[: number + 1]))) for number, name in enumerate(names)],
        "listing": listing,
        "downloads": backup_files.list_downloads(row) if row and row.state == "ready" else [],
        "build_url": lambda *place: build_url(backup, *place),
        "to_datetime": lambda seconds: datetime.fromtimestamp(min(seconds, MAX_SECONDS), UTC),
    }


def find_open_error(backup):
    return find_error_message(lambda: backup_files.ensure_openable(backup.instance, backup))


@bp.get("/<backup_id>/files")
@require_page_permission(FILES_PERMISSION)
def show(backup_id):
    backup = get_own(backup_id)
    return render(TEMPLATE, "content", **build_context(backup, get_path(request.args), get_path(request.args, "after")))


@bp.post("/<backup_id>/files/open")
@require_page_permission(FILES_PERMISSION)
@audit_label("Open files of backup")
def open_files(backup_id):
    backup = get_own(backup_id)
    backup_files.open_session(get_instance(backup.instance_id), backup, actor=get_current_actor())
    return build_action_response(_("The files are being opened."), build_url(backup, ""), "info")


@bp.post("/<backup_id>/files/close")
@require_page_permission(FILES_PERMISSION)
@audit_label("Close files of backup")
def close_files(backup_id):
    backup = get_own(backup_id)
    backup_files.close(backup, actor=get_current_actor())
    return build_action_response(_("The files are being closed."), tab_url(backup.instance, "backups"), "info")


@bp.post("/<backup_id>/files/list")
@require_page_permission(FILES_PERMISSION)
@audit_label("List files of backup")
def list_files(backup_id):
    """Request the list of a folder, and show it as soon as it is there. The page sends this until then."""
    backup, path, after = get_own(backup_id), get_path(request.form), get_path(request.form, "after")
    listing = backup_files.request_list(backup_files.get_ready(backup), path, after)
    return render(TEMPLATE, "listing", **build_context(backup, path, after, listing))


@bp.post("/<backup_id>/files/download")
@require_page_permission(FILES_PERMISSION)
@audit_label("Download from backup")
def download(backup_id):
    backup, path = get_own(backup_id), get_path(request.form)
    row = backup_files.get_ready(backup)
    prepared = backup_files.request_download(row, path, actor=get_current_actor())
    ensure_done(prepared)
    folder = path.rpartition("/")[0]
    return build_action_response(_("The download is being prepared."), build_url(backup, folder), "info")


@bp.get("/<backup_id>/files/downloads")
@require_page_permission(FILES_PERMISSION)
def show_downloads(backup_id):
    return render(TEMPLATE, "downloads", **build_context(get_own(backup_id), "", ""))


@bp.get("/<backup_id>/files/downloads/<request_id>")
@require_page_permission(FILES_PERMISSION)
def send(backup_id, request_id):
    row = backup_files.find_of_backup(get_own(backup_id))
    if row is None or row.state != "ready":
        raise NotFound(_("The files of the backup are not open."))
    return build_file_response(row, backup_files.find_download(row, request_id))
