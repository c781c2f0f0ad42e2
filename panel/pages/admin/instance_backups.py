"""All customers' backups of instances and volumes, and the instances that lack one."""

from datetime import timedelta

from flask import Blueprint, request, url_for
from marshmallow import EXCLUDE, ValidationError

from panel.auth.browser_session import get_current_account, get_current_actor, require_page_permission
from panel.core import clock
from panel.core.db import session
from panel.core.errors import Invalid, NotFound, Problem
from panel.models import InstanceBackup
from panel.pages.admin import labels
from panel.pages.shared import followed_tasks
from panel.pages.shared.backups import describe_deletion
from panel.schemas.instance_backups import AdminInstanceBackupQuery, BackupIdsIn
from panel.services import (
    backup_coverage,
    backup_destinations,
    backup_operations,
    backup_policies,
    backup_presence,
    backup_restore_tests,
    instance_backups,
    instances,
)
from panel.services.instance_backups.delete import count_results, describe_problem
from panel.web.audit_view import audit_label, parse_day
from panel.web.bulk_forms import is_confirmed
from panel.web.forms import flatten_errors
from panel.web.htmx import build_action_response, flash_message, is_partial, redirect_to, render
from panel.web.instance_search_form import search_or_empty
from panel.web.page_registry import NavigationEntry, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext, ngettext
from panel.workflows import backup_deletion, backup_reconciliation

bp = Blueprint("admin_instance_backups", __name__, url_prefix="/admin/backups")
NAVIGATION = NavigationEntry(
    "resources",
    "Backups",
    "admin_instance_backups.index",
    icon="archive",
    permission="admin:instances:read",
    position=25,
    shortcut="b",
)
SEARCH_RESULTS = (
    SearchResults(
        "backup", "Backups", icon="archive", url=lambda row_id: url_for("admin_instance_backups.show", backup_id=row_id)
    ),
)
READ_PERMISSION, WRITE_PERMISSION = "admin:instances:read", "admin:instances:write"
ORDERS = {
    "oldest": {"sort": "created_at", "dir": "asc"},
    "largest": {"sort": "size", "dir": "desc"},
    "smallest": {"sort": "size", "dir": "asc"},
    "name": {"sort": "name", "dir": "asc"},
    "name_down": {"sort": "name", "dir": "desc"},
}
"""Orders besides the default, newest first."""
DELETIONS = {"none": {"claim": "none"}, "claimed": {"claim": "claimed"}, "cleanup": {"issue": "cleanup_pending"}}
UNCONFIRMED = "unconfirmed"
"""The filter for deletions with an unknown outcome, which the API does not have."""
RARE_FILTERS = ("backup_type", "protected", "unusable", "instance_state", "deletion", "since", "until")
"""Filters that the page shows only after a click, or while one of them is set."""
MAX_AGES = (1, 2, 3, 7, 14, 30)
"""Days after which a backup is no longer recent, as the page offers them."""
RECONCILED_MESSAGES = {
    "revoked": (lazy_gettext("The deletion had not begun, and will not."), "success"),
    "done": (lazy_gettext("The backup was deleted."), "success"),
    "not_done": (lazy_gettext("The backup was not deleted. You can delete it again."), "success"),
    "unknown": (lazy_gettext("The destination does not answer, so the outcome is still unknown."), "warning"),
}


class BackupFilter(AdminInstanceBackupQuery):
    """The filters of the API that the page takes as they are. Others and invalid ones are ignored."""

    class Meta:
        unknown = EXCLUDE
        exclude = ("page", "per_page", "sort", "dir", "claim", "issue", "created_from", "created_to", "verification")


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    filters, deletion = parse_filters(), request.args.get("deletion")
    unusable = {"true": True, "false": False}.get(request.args.get("unusable"))
    query = instance_backups.listing(with_volumes=True, **filters, **ORDERS.get(request.args.get("order"), {}))
    if deletion == UNCONFIRMED:
        query = query.where(InstanceBackup.id.in_(select_unconfirmed_ids()))
    if unusable is not None:
        query = backup_presence.filter_unusable(query, unusable=unusable)
    context = {
        "filtered": bool(filters) or deletion == UNCONFIRMED or unusable is not None,
        "destinations": session.execute(backup_destinations.select_names()).all(),
        "has_rare_filters": any(request.args.get(name) for name in RARE_FILTERS),
        "unconfirmed_count": backup_operations.count_unconfirmed(),
    }
    return render("admin/instance_backups/index.html", "rows", page=Page(query), **context)


def parse_filters():
    """Return the request's filters for the service."""
    sent = {name: value for name, value in request.args.items() if value}
    try:
        filters = BackupFilter().load(sent)
    except ValidationError as error:
        filters = error.valid_data
    zone = get_current_account().timezone
    since, until = parse_day("since", zone), parse_day("until", zone)
    filters |= {"created_from": since} if since else {}
    filters |= {"created_to": until + timedelta(days=1, microseconds=-1)} if until else {}
    return filters | DELETIONS.get(request.args.get("deletion"), {})


def select_unconfirmed_ids():
    return backup_operations.select_unconfirmed().with_only_columns(InstanceBackup.id).order_by(None)


@bp.get("/missing")
@require_page_permission(READ_PERMISSION)
def missing():
    """Show the running instances without a recent backup, and those without a policy."""
    days = request.args.get("days", type=int)
    days = days if days in MAX_AGES else backup_coverage.DEFAULT_MAX_AGE_DAYS
    gap = request.args.get("gap") if request.args.get("gap") in backup_coverage.COVERAGE_GAPS else None
    search = request.args.get("search", "")[:255]
    query, search_error = search_or_empty(search=search)
    page = Page(backup_coverage.select_gap(query, gap, days=days))
    rows = list(page)
    ids = [instance.id for instance in rows]
    context = {
        "days": days,
        "ages": MAX_AGES,
        "filtered": bool(search or gap),
        "search_error": search_error,
        "policies": backup_policies.map_policies(ids),
        "jobs": backup_policies.map_jobs(rows),
        "newest": backup_coverage.map_newest_backups(ids),
    }
    return render("admin/instance_backups/missing.html", "rows", page=page, **context)


@bp.get("/<backup_id>")
@require_page_permission(READ_PERMISSION)
def show(backup_id):
    try:
        backup = instance_backups.get(backup_id, with_volumes=True)
    except NotFound:
        if not is_partial():
            raise
        flash_message(_("The backup does not exist any more."), "info")  # the open page of one that was deleted
        return redirect_to(url_for(".index"))
    chain = instance_backups.get_chain(backup)
    reasons = labels.FULL_READ_REASONS
    tests = backup_restore_tests.map_latest([backup.id])
    context = {"backup": backup, "chain": chain, "reasons": reasons, "restore_test": tests.get(backup.id)}
    return render("admin/instance_backups/show.html", "live", **context)


@bp.post("/<backup_id>/test")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Test restore")
def test_restore(backup_id):
    backup_restore_tests.start(instance_backups.get(backup_id), actor=get_current_actor())
    return build_action_response(_("Restore test requested."), url_for(".show", backup_id=backup_id), "info")


@bp.post("/<backup_id>/<any(protect, unprotect):action>")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Protect backup")
def protect(backup_id, action):
    backup = instance_backups.set_protected(instance_backups.get(backup_id, with_volumes=True), action == "protect")
    text = _("Backup protected from deletion.") if backup.protected else _("Protection removed.")
    return build_action_response(text, url_for(".show", backup_id=backup_id))


@bp.post("/<backup_id>/delete")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Delete backup")
def delete(backup_id):
    backup_deletion.delete(instance_backups.get(backup_id, with_volumes=True), actor=get_current_actor())
    return build_action_response(_("Deletion of the backup requested."), url_for(".index"), "info")


@bp.post("/operations/<operation_id>/reconcile")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Reconcile backup operation")
def reconcile(operation_id):
    """Find out what became of a deletion."""
    state = backup_reconciliation.reconcile(backup_operations.get_operation(operation_id))
    text, level = RECONCILED_MESSAGES[state]
    return build_action_response(text, url_for(".index", deletion=UNCONFIRMED), level)


@bp.post("/instances/<instance_id>/create")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Back up")
def create(instance_id):
    instance = instances.get(instance_id)
    instance_backups.create(instance, actor=get_current_actor())
    return build_action_response(_("Backup requested."), instance_tab_url(instance_id))


@bp.get("/bulk")
@require_page_permission(READ_PERMISSION)
def show_list():
    """Redirect to the list: the results of an action are shown once."""
    return redirect_to(url_for(".index"))


@bp.post("/bulk")
@require_page_permission(WRITE_PERMISSION)
@audit_label("Change backups")
def bulk():
    """Protect, release or delete the selected backups, and show the result for each."""
    (action, ids), since = parse_bulk_request(), clock.now()
    query = instance_backups.listing(with_volumes=True).where(InstanceBackup.id.in_(ids))
    backups = {backup.id: backup for backup in session.scalars(query)}
    names = {backup.id: f"{backup.resource_name}: {backup.name}" for backup in backups.values()}
    if action != "delete":
        results = [set_protected(backup, action == "protect") for backup in backups.values()]
        return render_results(action, results, names, since)
    if not is_confirmed(ids, request.form):
        context = {"backups": backups.values(), "count": len(set(ids)), "typed": request.form.get("typed")}
        return render("admin/instance_backups/bulk_delete.html", "panel", **context)
    answer = backup_deletion.delete_all(ids, backups, actor=get_current_actor(), is_missing_refused=True)[0]
    return render_results(action, answer["results"], names, since)


def parse_bulk_request():
    """Return the action and the ids. Raise Invalid for others."""
    action, ids = request.form.get("action"), request.form.getlist("ids")
    if not ids:
        raise Invalid(_("Select at least one backup."))
    if action not in ("protect", "unprotect", "delete"):
        raise Invalid(_("Choose an action."))
    try:
        return action, BackupIdsIn().load({"backups": ids})["backups"]
    except ValidationError as error:
        raise Invalid(flatten_errors(error.normalized_messages())) from None


def set_protected(backup, protected):
    """Return the result for one backup."""
    try:
        instance_backups.set_protected(backup, protected)
    except Problem as problem:
        return {"id": backup.id, **describe_problem(problem)}
    text = _("Backup protected from deletion.") if protected else _("Protection removed.")
    return {"id": backup.id, "success": True, "message": text}


BULK_LABELS = {
    "protect": lazy_gettext("Protect backups"),
    "unprotect": lazy_gettext("Remove protection"),
    "delete": lazy_gettext("Delete backups"),
}


def render_results(action, results, names, since):
    if action == "delete":
        summary = describe_deletion(results)
    else:
        counts = count_results(results)
        done = ngettext("Done for %(num)s backup.", "Done for %(num)s backups.", counts["queued"])
        summary = f"{done} {followed_tasks.describe_refused(counts['refused'])}".rstrip()
    context = {
        "missing_message": _("These backups no longer exist."),
        "label": BULK_LABELS[action],
        "summary": summary,
        "results": results,
        "result_names": names,
    }
    started = [row["id"] for row in results if row["success"] and action == "delete"]
    return followed_tasks.render_results(
        "admin/instance_backups/results.html", **context, **followed_tasks.follow(started, since)
    )


def instance_tab_url(instance_id):
    return url_for("admin_instances.tab", instance_id=instance_id, tab="backups")
