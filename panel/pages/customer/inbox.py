"""The inbox of the signed-in person, and the choice of what goes there."""

from flask import Blueprint, jsonify, request, url_for

from panel.auth import permissions
from panel.auth.browser_session import find_impersonator, get_current_access, has_permission, require_page_permission
from panel.services import inbox
from panel.web.htmx import build_action_response, flash_message, is_local_url, redirect_to, render
from panel.web.page_registry import NavigationEntry
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import translate

bp = Blueprint("inbox", __name__, url_prefix="/notifications")
NAVIGATION = NavigationEntry(
    "watch", "Inbox", "inbox.index", icon="message-circle", permission=permissions.ANY_USER, position=5
)

KIND_ICONS = {
    "security": "shield-check",
    "task_failed": "circle-x",
    "task_long": "clock",
    "backup": "archive",
    "alert": "bell",
    "traffic": "gauge",
    "balance": "wallet",
    "certificate": "certificate",
    "team": "users",
    "announcement": "info-circle",
}
SEVERITY_COLORS = {"info": "text-secondary", "warning": "text-warning", "error": "text-danger"}


@bp.get("")
@require_page_permission(permissions.ANY_USER)
def index():
    access = get_current_access()
    kind = request.args.get("kind")
    kind = kind if kind in inbox.KINDS else None
    page = Page(inbox.listing(access, kind=kind, unread=True if request.args.get("unread") else None))
    return render(
        "customer/inbox/index.html",
        "rows",
        page=page,
        kinds=[(row.kind, row.label) for row in inbox.list_preferences(access)],
        labels={name: facts.label for name, facts in inbox.KINDS.items()},
        icons=KIND_ICONS,
        colors=SEVERITY_COLORS,
        can_mark=has_permission(permissions.PERSONAL),
        is_filtered=bool(kind or request.args.get("unread")),
    )


@bp.get("/unread")
@require_page_permission(permissions.ANY_USER)
def show_unread():
    return render("layout/inbox_link.html", "inbox_link")


@bp.get("/newest")
@require_page_permission(permissions.ANY_USER)
def list_newest():
    """Return new messages as JSON, for notifications of the browser; nothing to an operator who acts as a customer."""
    messages = [] if find_impersonator() else inbox.list_newest(get_current_access())
    return jsonify(
        [
            {
                "id": row.id,
                "title": translate(inbox.KINDS[row.kind].label),
                "text": translate(row.text),
                "url": row.path if row.path and is_local_url(row.path) else url_for(".index"),
            }
            for row in messages
        ]
    )


@bp.post("/<message_id>/open")
@require_page_permission(permissions.PERSONAL)
def open_message(message_id):
    """Mark the message as read and go to the page that it names."""
    access = get_current_access()
    row = inbox.get(message_id, access)
    inbox.mark_read(access, [row.id])
    return redirect_to(row.path if row.path and is_local_url(row.path) else url_for(".index"))


@bp.post("/<message_id>/read")
@require_page_permission(permissions.PERSONAL)
def mark_read(message_id):
    access = get_current_access()
    inbox.mark_read(access, [inbox.get(message_id, access).id])
    return build_action_response(_("Marked as read."), url_for(".index"))


@bp.post("/read")
@require_page_permission(permissions.PERSONAL)
def mark_all_read():
    inbox.mark_all_read(get_current_access())
    return build_action_response(_("All messages are marked as read."), url_for(".index"))


@bp.get("/preferences")
@require_page_permission(permissions.ANY_USER)
def preferences():
    return render(
        "customer/inbox/preferences.html",
        preferences=inbox.list_preferences(get_current_access()),
        icons=KIND_ICONS,
        can_change=has_permission(permissions.PERSONAL),
    )


@bp.post("/preferences")
@require_page_permission(permissions.PERSONAL)
def save_preferences():
    access = get_current_access()
    chosen = {place: request.form.getlist(place) for place in ("inbox", "mail")}
    kinds = [row.kind for row in inbox.list_preferences(access) if not row.fixed]
    changes = [{"kind": kind, **{place: kind in chosen[place] for place in chosen}} for kind in kinds]
    inbox.update_preferences(access, changes)
    flash_message(_("Notification settings saved."))
    return redirect_to(url_for(".preferences"))
