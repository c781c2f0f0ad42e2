"""Micro VMs: the list, creating and editing one, and the pages of one."""

from flask import Blueprint, request, url_for

from panel.auth.browser_session import get_current_access, get_current_actor, require_page_permission
from panel.core import context as app_context
from panel.core.db import session
from panel.core.errors import NotFound, Problem
from panel.pages.shared.microvms import destroy_confirmed, find_or_render_ended
from panel.schemas.microvm_connectors import MicrovmConnectorIn
from panel.schemas.microvms import MICROVM_STATES, MicrovmSnapshotIn
from panel.services import account_limits, microvms, usage
from panel.services.microvms import actions, connectors, guest_reports, network, snapshots
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, PaletteAction, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

bp = Blueprint("microvms", __name__, url_prefix="/microvms")
NAVIGATION = NavigationEntry(
    "compute", "Micro VMs", "microvms.index", icon="cpu", permission="microvm.view", position=38, is_billed=True
)
PALETTE_ACTIONS = (PaletteAction("Create micro VM", "microvms.new", "plus", "microvm.manage", 90),)
SEARCH_RESULTS = (
    SearchResults("microvm", "Micro VMs", icon="cpu", url=lambda row: url_for("microvms.show", microvm_id=row.id)),
)
VIEW_PERMISSION, MANAGE_PERMISSION, DELETE_PERMISSION = "microvm.view", "microvm.manage", "microvm.delete"
ACTIONS = ("start", "stop", "restart", "pause", "resume")
LEVEL_LABELS = {
    "debug": lazy_gettext("Debug"),
    "info": lazy_gettext("Info"),
    "warn": lazy_gettext("Warning"),
    "error": lazy_gettext("Error"),
}
LEVEL_FILTERS = (("warn", lazy_gettext("Warnings and errors")), ("error", lazy_gettext("Errors")))
LATEST_LOG_ENTRIES = 10
"""Entries on the page of a micro VM. The others are on the page of its logs."""


class ConnectorForm(MicrovmConnectorIn):
    class Meta(MicrovmConnectorIn.Meta):
        exclude = ("microvm_id",)


def billing_error():
    """Return the reason why micro VMs cannot be listed and created (billing is off), or None."""
    try:
        usage.ensure_billing_enabled(get_current_access())
    except Problem as error:
        return error.message
    return None


def get_own(microvm_id):
    return microvms.get(microvm_id, get_current_access())


@bp.get("")
@require_page_permission(VIEW_PERMISSION)
def index():
    state = request.args.get("state") if request.args.get("state") in MICROVM_STATES else None
    filters = {"search": request.args.get("search", "")[:255], "state": state}
    page = Page(microvms.listing(get_current_access(), **filters))
    context = {
        "page": page,
        "billing_error": billing_error(),
        "find_action_errors": find_action_errors,
        "is_changing": any(microvm.pending for microvm in page),
        "filtered": any(filters.values()),
    }
    return render("customer/microvms/index.html", "rows", **context)


@bp.get("/<microvm_id>")
@require_page_permission(VIEW_PERMISSION)
def show(microvm_id):
    microvm, ended = find_or_render_ended(microvm_id)
    return ended or microvm_page(microvm)


@bp.get("/<microvm_id>/logs")
@require_page_permission(VIEW_PERMISSION)
def logs(microvm_id):
    microvm, ended = find_or_render_ended(microvm_id)
    if ended:
        return ended
    level = request.args.get("level") if request.args.get("level") in LEVEL_LABELS else None
    page = Page(guest_reports.select_log(microvm, level=level, newest_first=True))
    context = {"microvm": microvm, "level": level, "levels": LEVEL_FILTERS, **build_log_context(page)}
    return render("customer/microvms/logs.html", "logs", **context)


def build_log_context(entries):
    return {
        "log_entries": entries,
        "level_labels": LEVEL_LABELS,
        "collects_logs": bool(len(entries)) or guest_reports.has_collector(),
    }


def find_action_errors(microvm):
    """Return why each action is refused now, or None."""
    return {
        action: actions.MICROVM_REASON_MESSAGES.get(actions.action_error(microvm, action))
        for action in (*ACTIONS, "snapshot", "rollback")
    }


def microvm_page(microvm, form=None, connector_form=None):
    form, connector_form = form or Form(MicrovmSnapshotIn), connector_form or Form(ConnectorForm)
    context = {
        "microvm": microvm,
        "network_update": network.find_last_update(microvm),
        "usage": microvms.usages.find(microvm),
        "action_errors": find_action_errors(microvm),
        "snapshots": session.scalars(snapshots.listing(microvm)).all(),
        "snapshot_form": form,
        "connectors": session.scalars(connectors.listing(get_current_access(), microvm_id=microvm.id)).all(),
        "connector_form": connector_form,
        "connector_limit": account_limits.describe_limits(microvm.account_id)[connectors.LIMIT],
        "domain_error": connectors.create_error(),
        "sandbox_domain": app_context.current().config.sandbox_domain,
        "guest": guest_reports.find_live_sample(microvm),
        **build_log_context(guest_reports.list_log(microvm, LATEST_LOG_ENTRIES, newest_first=True)),
    }
    status = max(form.status, connector_form.status)
    return render("customer/microvms/show.html", "live", status=status, **context)


@bp.post("/<microvm_id>/<any(start, stop, restart, pause, resume):action>")
@require_page_permission(MANAGE_PERMISSION)
def act(microvm_id, action):
    getattr(microvms, action)(get_own(microvm_id), actor=get_current_actor())
    messages = {
        "start": _("Start requested."),
        "stop": _("Stop requested."),
        "restart": _("Restart requested."),
        "pause": _("Pause requested."),
        "resume": _("Resume requested."),
    }
    return build_action_response(messages[action], url_for(".show", microvm_id=microvm_id))


@bp.post("/<microvm_id>/internet/<any(on, off):access>")
@require_page_permission(MANAGE_PERMISSION)
def set_internet(microvm_id, access):
    changes = {"allow_internet_access": access == "on"}
    microvms.update(get_own(microvm_id), changes, actor=get_current_actor())
    return build_action_response(_("Internet access: change requested."), url_for(".show", microvm_id=microvm_id))


@bp.post("/<microvm_id>/delete")
@require_page_permission(DELETE_PERMISSION)
def delete(microvm_id):
    destroy_confirmed(get_own(microvm_id))
    return redirect_to(url_for(".index"))


@bp.post("/<microvm_id>/snapshot")
@require_page_permission(MANAGE_PERMISSION)
def snapshot(microvm_id):
    microvm, form = get_own(microvm_id), Form(MicrovmSnapshotIn)
    if form.submit(lambda **values: snapshots.create(microvm, actor=get_current_actor(), **values)):
        flash_message(_("Snapshot requested."))
        return redirect_to(url_for(".show", microvm_id=microvm_id))
    return microvm_page(microvm, form)


@bp.post("/<microvm_id>/snapshot/<snapshot_id>/<any(rollback, delete):action>")
@require_page_permission(MANAGE_PERMISSION)
def use_snapshot(microvm_id, snapshot_id, action):
    target = snapshots.get(get_own(microvm_id), snapshot_id)
    if action == "delete":
        snapshots.delete(target, actor=get_current_actor())
    else:
        snapshots.roll_back(target, actor=get_current_actor())
    sentence = _("Deletion of the snapshot requested.") if action == "delete" else _("Rollback requested.")
    return build_action_response(sentence, url_for(".show", microvm_id=microvm_id))


@bp.post("/<microvm_id>/addresses")
@require_page_permission(MANAGE_PERMISSION)
def add_connector(microvm_id):
    microvm, form = get_own(microvm_id), Form(ConnectorForm)
    if form.submit(lambda **values: connectors.create(get_current_access(), microvm_id=microvm_id, **values)):
        flash_message(_("Public address %(label)s added.", label=form.result.label))
        return redirect_to(url_for(".show", microvm_id=microvm_id))
    return microvm_page(microvm, connector_form=form)


@bp.post("/<microvm_id>/address/<connector_id>/delete")
@require_page_permission(MANAGE_PERMISSION)
def remove_connector(microvm_id, connector_id):
    connector = connectors.get(connector_id, get_current_access())
    if connector.microvm_id != microvm_id:
        raise NotFound(_("No such public address."))
    connectors.delete(connector)
    message = _("Public address %(label)s removed.", label=connector.label)
    return build_action_response(message, url_for(".show", microvm_id=microvm_id))


from panel.pages.customer.microvms import forms, metrics  # noqa: E402, F401  (they add their pages to bp)
