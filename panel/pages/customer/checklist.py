"""The checklist of a new customer on the overview."""

from flask import Blueprint, url_for

from panel.auth import permissions
from panel.auth.browser_session import get_current_access, get_current_account, require_page_permission
from panel.core import clock
from panel.services import customer_checklist
from panel.web.audit_view import audit_label
from panel.web.checklists import Checklist, ChecklistItem
from panel.web.htmx import build_action_response
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

bp = Blueprint("checklist", __name__, url_prefix="/checklist")
STEPS = {
    "ssh_key": (
        lazy_gettext("Add an SSH key"),
        lazy_gettext("You sign in to new instances with it, without a password."),
        "ssh_keys.new",
    ),
    "instance": (
        lazy_gettext("Create your first instance"),
        lazy_gettext("It is ready in about a minute."),
        "instances.new",
    ),
    "firewall": (
        lazy_gettext("Attach a security group"),
        lazy_gettext("It allows only the connections that you choose."),
        "security_groups.index",
    ),
    "backup": (
        lazy_gettext("Set up backups"),
        lazy_gettext("A policy backs up your instances on a schedule."),
        "backup_policies.index",
    ),
    "second_factor": (
        lazy_gettext("Protect your sign-in"),
        lazy_gettext("Use two-factor authentication or a passkey."),
        "security.show",
    ),
}
"""Title, text and page of each step of `customer_checklist`."""


def build_checklist():
    """Return the checklist; None when it is complete."""
    account = get_current_account()
    steps = [
        ChecklistItem(*STEPS[name][:2], url_for(STEPS[name][2]), is_done)
        for name, is_done in customer_checklist.list_steps(get_current_access(), account).items()
    ]
    checklist = Checklist(_("First steps"), "checklist.switch", account.checklist_dismissed_at is not None, steps)
    return checklist if checklist.open_steps else None


@bp.post("/<any(hide, show):to>")
@require_page_permission(permissions.ANY_USER)
@audit_label(lazy_gettext("Hide or show checklist"))
def switch(to):
    get_current_account().checklist_dismissed_at = clock.now() if to == "hide" else None
    return build_action_response(
        _("Checklist hidden.") if to == "hide" else _("Checklist shown until every step is done."),
        url_for("overview.show"),
    )
