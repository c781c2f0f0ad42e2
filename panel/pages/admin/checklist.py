"""The checklist of a new platform on the operators' overview."""

from flask import Blueprint, url_for

from panel.auth.browser_session import get_current_account, require_page_permission
from panel.core import clock
from panel.services import platform_checklist
from panel.web.audit_view import audit_label
from panel.web.checklists import Checklist, ChecklistItem
from panel.web.htmx import build_action_response
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

bp = Blueprint("admin_checklist", __name__, url_prefix="/admin/checklist")
STEPS = {
    "hypervisor": (
        lazy_gettext("Add a hypervisor"),
        lazy_gettext("Instances need a host that responds."),
        "admin_hypervisors.index",
    ),
    "kvm": (
        lazy_gettext("Use hardware acceleration (KVM)"),
        lazy_gettext("Without KVM instances are many times slower."),
        "admin_hypervisors.index",
    ),
    "subnet": (
        lazy_gettext("Add a subnet"),
        lazy_gettext("Instances get their public IPv4 addresses from it."),
        "admin_subnets.index",
    ),
    "image": (
        lazy_gettext("Add an image of a distribution"),
        lazy_gettext("For example Debian or Ubuntu. The built-in image is only for tests."),
        "admin_image_browser.index",
    ),
    "plan": (
        lazy_gettext("Offer a plan"),
        lazy_gettext("It defines the size and price of an instance."),
        "admin_plans.index",
    ),
    "mail": (
        lazy_gettext("Set up mail"),
        lazy_gettext("Set PANEL_MAIL_URL. Until then mails are files in the data directory."),
        None,
    ),
    "public_address": (
        lazy_gettext("Set the public address"),
        lazy_gettext("PANEL_PUBLIC_URL must be an https address with a domain name."),
        None,
    ),
    "backup_destination": (
        lazy_gettext("Add a backup destination"),
        lazy_gettext("Backups of instances are stored there."),
        "admin_backup_destinations.index",
    ),
    "second_factor": (
        lazy_gettext("Protect operators' sign-in"),
        lazy_gettext("At least one operator has neither two-factor authentication nor a passkey."),
        "security.show",
    ),
    "billing": (
        lazy_gettext("Enable billing"),
        lazy_gettext("Customers are not charged. Hide the list if you do not charge them here."),
        "admin_settings.show",
    ),
}
"""Title, text and page of each step of `platform_checklist`."""


def build_checklist():
    """Return the checklist; None when it is complete."""
    steps = []
    for name, is_done, detail in platform_checklist.list_steps():
        title, text, endpoint = STEPS[name]
        steps.append(ChecklistItem(title, text, endpoint and url_for(endpoint), is_done, detail))
    is_hidden = get_current_account().platform_checklist_dismissed_at is not None
    checklist = Checklist(_("Set up your platform"), "admin_checklist.switch", is_hidden, steps)
    return checklist if checklist.open_steps else None


@bp.post("/<any(hide, show):to>")
@require_page_permission("admin:system:read")
@audit_label(lazy_gettext("Hide or show checklist"))
def switch(to):
    get_current_account().platform_checklist_dismissed_at = clock.now() if to == "hide" else None
    return build_action_response(
        _("Checklist hidden.") if to == "hide" else _("Checklist shown until every step is done."),
        url_for("admin.show"),
    )
