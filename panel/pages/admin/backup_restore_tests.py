"""Results of restore tests."""

from flask import Blueprint, request

from panel.auth.browser_session import require_page_permission
from panel.services import backup_restore_tests
from panel.web.file_download import build_png_response
from panel.web.htmx import render
from panel.web.paging import Page

bp = Blueprint("admin_backup_restore_tests", __name__, url_prefix="/admin/backup-restore-tests")
READ_PERMISSION, SCREEN_PERMISSION = "admin:instances:read", "admin:instances:write"
"""A screenshot shows what a console does, so it needs the same permission."""
STATUSES = ("passed", "failed", "aborted", "running")


@bp.get("")
@require_page_permission(READ_PERMISSION)
def listing():
    status = request.args.get("status") if request.args.get("status") in STATUSES else None
    page = Page(backup_restore_tests.listing(status))
    return render("admin/instance_backups/tests.html", "rows", page=page, filtered=status is not None)


@bp.get("/<test_id>/screenshot")
@require_page_permission(SCREEN_PERMISSION)
def screenshot(test_id):
    return build_png_response(backup_restore_tests.get(test_id))
