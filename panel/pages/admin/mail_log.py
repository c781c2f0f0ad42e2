"""The log of sent mails."""

from flask import Blueprint, request

from panel.auth.browser_session import require_page_permission
from panel.schemas.mass_mails import MAIL_STATUSES
from panel.services import mail_log
from panel.web.htmx import render
from panel.web.page_registry import NavigationEntry
from panel.web.paging import Page
from panel.web.translation import lazy_gettext

bp = Blueprint("admin_mail_log", __name__, url_prefix="/admin/mail-log")
READ_PERMISSION = "admin:system:read"
NAVIGATION = NavigationEntry(
    "control", "Mail log", "admin_mail_log.index", icon="list-details", permission=READ_PERMISSION, position=25
)
STATUS_LABELS = {
    "sent": lazy_gettext("Sent"),
    "failed": lazy_gettext("Failed"),
    "unknown": lazy_gettext("Unknown"),
}


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    search, status = request.args.get("search", "")[:255], request.args.get("status")
    status = status if status in MAIL_STATUSES else None
    page = Page(mail_log.listing(search=search, status=status))
    return render(
        "admin/mail_log/index.html", "rows", page=page, statuses=STATUS_LABELS, filtered=bool(search or status)
    )
