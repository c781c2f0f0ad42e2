"""The audit log of the platform."""

from flask import Blueprint

from panel.auth.browser_session import get_current_account, require_page_permission
from panel.core.db import session
from panel.models import Account
from panel.pages.admin import labels
from panel.services import audit
from panel.web import audit_view, csv_export
from panel.web.htmx import render
from panel.web.page_registry import NavigationEntry
from panel.web.paging import Page

bp = Blueprint("admin_audit", __name__, url_prefix="/admin/audit")
NAVIGATION = NavigationEntry(
    "control", "Audit log", "admin_audit.index", icon="file-text", permission="admin:audit:read", position=20
)
READ_PERMISSION = "admin:audit:read"


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    filters = parse_filters()
    owner = filters["account_id"] and session.get(Account, filters["account_id"])
    context = {
        "audit_filters": filters,
        "owner": owner,
        "describe_entry": audit_view.describe_entry,
        "object_type_label": audit_view.object_type_label,
        "person_kinds": labels.PERSON_KINDS,
    }
    return render("admin/audit/index.html", "rows", page=Page(audit.listing(**filters)), **context)


@bp.get("/export")
@require_page_permission(READ_PERMISSION)
def export():
    return csv_export.build_csv_response(
        "audit", audit.EXPORT_COLUMNS, audit.iter_export(audit.with_full_columns(audit.listing(**parse_filters())))
    )


@bp.get("/<entry_id>")
@require_page_permission(READ_PERMISSION)
def show(entry_id):
    entry = audit.get(entry_id)
    owner = entry.account_id and session.get(Account, entry.account_id)
    return render(
        "admin/audit/show.html",
        entry=entry,
        owner=owner,
        describe_entry=audit_view.describe_entry,
        object_type_label=audit_view.object_type_label,
        person_kinds=labels.PERSON_KINDS,
    )


def parse_filters():
    return audit_view.parse_filters(get_current_account().timezone, "object_id", "account_id")
