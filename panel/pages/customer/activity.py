"""Events of the account's resources, and the account's audit log."""

from flask import Blueprint, url_for

from panel.auth import permissions
from panel.auth.browser_session import get_current_access, get_current_account, has_permission, require_page_permission
from panel.services import audit, events
from panel.web import audit_view, csv_export
from panel.web.activity_view import label_events
from panel.web.field_labels import label_fields
from panel.web.htmx import redirect_to, render
from panel.web.page_registry import NavigationEntry
from panel.web.paging import Page

bp = Blueprint("activity", __name__)
NAVIGATION = NavigationEntry(
    "watch", "Activity", "activity.index", icon="history", permission=permissions.ANY_USER, position=20
)


@bp.get("/activity")
@require_page_permission(permissions.ANY_USER)
def index():
    if not has_permission("instances.view"):  # events are about instances
        return redirect_to(url_for(".log"))
    page = Page(events.listing(get_current_access()))
    return render("customer/activity/index.html", "rows", page=page, events_shown=label_events(page.rows))


@bp.get("/activity/log")
@require_page_permission(permissions.ANY_USER)
def log():
    filters = audit_view.parse_filters(get_current_account().timezone, "object_id")
    page = Page(audit.listing(get_current_access(), **filters))
    context = {
        "can_see_full_log": audit.can_see_full_log(get_current_access()),
        "describe_entry": audit_view.describe_entry,
        "label_fields": label_fields,
        "object_type_label": audit_view.object_type_label,
    }
    return render("customer/activity/log.html", "rows", page=page, audit_filters=filters, **context)


@bp.get("/activity/log/export")
@require_page_permission(permissions.ANY_USER)
def export():
    entries = audit.listing(
        get_current_access(), **audit_view.parse_filters(get_current_account().timezone, "object_id")
    )
    return csv_export.build_csv_response(
        "activity", audit.EXPORT_COLUMNS, audit.iter_export(audit.with_redacted_columns(entries))
    )
