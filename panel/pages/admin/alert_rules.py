"""All customers' alert rules."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import require_page_permission
from panel.pages.shared.alert_rules import describe_condition
from panel.services import alert_rules, owner_emails
from panel.web.htmx import build_action_response, render
from panel.web.page_registry import NavigationEntry
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

bp = Blueprint("admin_alert_rules", __name__, url_prefix="/admin/alert-rules")
READ_PERMISSION, WRITE_PERMISSION = "admin:instances:read", "admin:instances:write"
NAVIGATION = NavigationEntry(
    "control", "Alerts", "admin_alert_rules.index", icon="bell", permission=READ_PERMISSION, position=15
)
STATUS_LABELS = {
    "firing": lazy_gettext("Firing"),
    "no_data": lazy_gettext("No data"),
    "ok": lazy_gettext("OK"),
    "off": lazy_gettext("Off"),
}


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    search, status = request.args.get("search", "").strip()[:255], request.args.get("status", "")
    page = Page(alert_rules.search_all(search=search, status=status))
    return render(
        "admin/alert_rules/index.html",
        "rows",
        page=page,
        filtered=bool(search or status),
        statuses=list(STATUS_LABELS.items()),
        owners=owner_emails.map_accounts(page.rows),
        names=alert_rules.map_resource_names(page.rows),
        describe_condition=describe_condition,
        is_suspended=False,
    )


@bp.post("/<alert_rule_id>/<any(enable, disable):action>")
@require_page_permission(WRITE_PERMISSION)
def switch(alert_rule_id, action):
    """Enable or disable a rule. Its owner can do the same."""
    rule = alert_rules.get(alert_rule_id, None)
    alert_rules.update(rule, owner_emails.find_account(rule), enabled=action == "enable")
    text = _("%(name)s enabled.", name=rule.name) if rule.enabled else _("%(name)s disabled.", name=rule.name)
    return build_action_response(text, url_for(".index"))
