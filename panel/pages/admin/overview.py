"""The operators' first page: items that need attention, capacity, open tasks."""

from dataclasses import dataclass
from datetime import timedelta
from zoneinfo import ZoneInfo

from flask import Blueprint, url_for
from sqlalchemy import func, select

from panel.auth.browser_session import get_current_account, require_page_permission
from panel.core import clock
from panel.core.db import find_nonempty, session
from panel.models.backup_destinations import INSTALLATION_BACKUPS
from panel.pages.admin import platform_view
from panel.pages.admin.checklist import build_checklist
from panel.services import (
    backup_copies,
    backup_coverage,
    backup_destinations,
    backup_presence,
    backup_restore_tests,
    capacity_forecast,
    hypervisors,
    installation_backups,
    overview,
    platform_health,
    tasks,
)
from panel.web import audit_view
from panel.web.htmx import render
from panel.web.page_registry import NavigationEntry
from panel.web.translation import gettext as _
from panel.web.translation import ngettext, translate

bp = Blueprint("admin", __name__, url_prefix="/admin")
NAVIGATION = NavigationEntry(
    "", "Overview", "admin.show", icon="layout-dashboard", permission="admin:system:read", position=10, shortcut="o"
)
SEVERITY_LEVELS = ("danger", "warning", "info")
MAX_NAMED_ITEMS = 8
"""Maximum of items of a kind on the page; the lists have the rest."""
CUSTOMER_FAILURE_TITLES = {
    "guests": lambda count: ngettext(
        "%(num)s task failed in a customer's instance today",
        "%(num)s tasks failed in customers' instances today",
        count,
    ),
    "downloads": lambda count: ngettext(
        "%(num)s download of a customer failed today", "%(num)s downloads of customers failed today", count
    ),
    "certificates": lambda count: ngettext(
        "%(num)s certificate order of a customer failed today",
        "%(num)s certificate orders of customers failed today",
        count,
    ),
}


@bp.get("")
@require_page_permission("admin:system:read")
def show():
    running = tasks.listing(status="open")
    lately = overview.select_failed_since(get_start_of_day())
    failed, failures = count_rows(lately), session.scalars(lately.limit(MAX_NAMED_ITEMS)).all()
    capacities = overview.list_capacities()
    health = platform_health.get_health()
    return render(
        "admin/overview/show.html",
        "live",
        checklist=build_checklist(),
        health_items=platform_view.build_health_items(health),
        curves=platform_view.build_curves(capacities),
        items=sort_findings(failed, failures, capacities, health.missing_backups),
        capacities=capacities,
        days_left=capacity_forecast.list_days_left(capacities),
        entries=platform_view.list_newest_entries(),
        describe_entry=audit_view.describe_entry,
        new_customers=platform_view.list_new_customers(),
        revenue=platform_view.get_revenue(),
        states=overview.count_states(),
        running_tasks=session.scalars(running.limit(MAX_NAMED_ITEMS)).all(),
        running_task_count=count_rows(running),
        failures=failures,
        failed=failed,
    )


def count_rows(query):
    return session.scalar(select(func.count()).select_from(query.order_by(None).subquery()))


def get_start_of_day():
    """Return midnight of the operator's time zone, but at least eight hours ago."""
    now = clock.now().astimezone(ZoneInfo(get_current_account().timezone))
    return min(now.replace(hour=0, minute=0, second=0, microsecond=0), now - timedelta(hours=8))


@dataclass
class AttentionItem:
    """An item that needs an operator's attention."""

    level: str
    symbol: str
    title: str
    text: str | None
    address: str


def sort_findings(failed, failures, capacities, missing_backups):
    """Return all attention items, most severe first."""
    return sorted(
        [*iter_findings(failed, failures, missing_backups), *iter_capacity_findings(capacities)],
        key=lambda item: SEVERITY_LEVELS.index(item.level),
    )


def load_nonempty(queries):
    """Return the first rows of each of the selects, by name. One query, and one for each select that finds rows."""
    found = find_nonempty(queries)
    return {
        name: session.scalars(query.limit(MAX_NAMED_ITEMS)).all() if name in found else []
        for name, query in queries.items()
    }


def iter_findings(failed, failures, missing_backups):
    alive = overview.count_workers()
    if not alive:
        reason = _("Tasks wait until a worker runs.")
        if alive is None:
            reason = _("Redis is not reachable, so tasks start late.")
        address = url_for("admin_tasks.index", status="open")
        yield AttentionItem("danger", "plug-connected-x", _("No worker is running"), reason, address)
    rows = load_nonempty(
        {
            "silent_nodes": hypervisors.select_with_problems(),
            "missing_instances": overview.select_missing_instances(),
            "undeleted_volumes": overview.select_undeleted_volumes(),
            "unavailable_destinations": backup_destinations.select_unavailable(),
            "nodes_with_unmanaged_machines": hypervisors.select_with_unmanaged_machines(),
        }
    )
    yield from (build_silent_node_item(node) for node in rows["silent_nodes"])
    if failed:
        text = _("Last: %(name)s: %(error)s", name=failures[0].resource_name, error=failures[0].error)
        title = ngettext("%(num)s task failed today", "%(num)s tasks failed today", failed)
        yield AttentionItem("danger", "circle-x", title, text, url_for("admin_tasks.index", status="failed"))
    yield from iter_customer_failures()
    for instance in rows["missing_instances"]:
        address = url_for("admin_instances.show", instance_id=instance.id)
        title = _("VM of %(name)s is missing on its hypervisor", name=instance.name)
        yield AttentionItem("danger", "zoom-question", title, instance.last_error, address)
    for volume in rows["undeleted_volumes"]:
        title = _("Deleted volume %(name)s still exists", name=volume.name)
        text = ngettext(
            "%(num)s attempt failed. Last error: %(error)s",
            "%(num)s attempts failed. Last error: %(error)s",
            volume.delete_attempts,
            error=volume.error,
        )
        yield AttentionItem("danger", "database", title, text, url_for("admin_volumes.index", search=volume.name))
    yield from iter_backup_findings(missing_backups, rows["unavailable_destinations"])
    for storage in overview.list_full_storages():
        title = _(
            "Storage %(name)s on %(hypervisor)s is nearly full", name=storage.name, hypervisor=storage.hypervisor.name
        )
        remaining = _("%(percent)d %% of the disk space is free.", percent=storage.free * 100 // storage.capacity)
        yield AttentionItem("warning", "database", title, remaining, hypervisor_url(storage.hypervisor))
    for group, free in overview.list_scarce_locations():
        title = _("%(name)s is running out of IPv4 addresses", name=group.display_name)
        remaining = ngettext("%(num)s address left. Add a subnet.", "%(num)s addresses left. Add a subnet.", free)
        yield AttentionItem("warning", "network", title, remaining, url_for("admin_subnets.index"))
    for node in rows["nodes_with_unmanaged_machines"]:
        title = ngettext(
            "%(num)s unmanaged VM on %(hypervisor)s",
            "%(num)s unmanaged VMs on %(hypervisor)s",
            len(node.unmanaged_machines),
            hypervisor=node.name,
        )
        names = ", ".join(machine["name"] for machine in node.unmanaged_machines[:3])
        text = _("Not an instance of this panel: %(names)s.", names=names)
        yield AttentionItem("info", "help-circle", title, text, hypervisor_url(node))


def iter_backup_findings(missing_backups, unavailable_destinations):
    """Yield items for unavailable destinations, a failed backup of the installation, damaged or missing backups,
    failed copies and restore tests, and instances whose backups are overdue."""
    for destination in unavailable_destinations:
        title = _("Backup destination %(name)s is unavailable", name=destination.name)
        address = url_for("admin_backup_destinations.show", destination_id=destination.id)
        if destination.purpose == INSTALLATION_BACKUPS:
            address = url_for("admin_installation_backups.destinations")
        yield AttentionItem("danger", "device-floppy", title, destination.status_detail, address)
    if run := installation_backups.find_last_failure():
        title = _("The last backup of the installation failed")
        yield AttentionItem("danger", "archive", title, run.error, url_for("admin_installation_backups.index"))
    if unusable := backup_presence.count_unusable():
        title = ngettext("%(num)s backup is damaged or missing", "%(num)s backups are damaged or missing", unusable)
        text = _("Their destination has lost or changed content. Check its disks.")
        yield AttentionItem("danger", "archive", title, text, url_for("admin_instance_backups.index", unusable="true"))
    if failed_copies := backup_copies.count_failed():
        title = ngettext("%(num)s copy of a backup failed", "%(num)s copies of backups failed", failed_copies)
        text = _("Workers try again every hour. The list has the reasons.")
        yield AttentionItem("danger", "archive", title, text, url_for("admin_backup_copies.listing", status="failed"))
    if failed := backup_restore_tests.list_failed():
        title = ngettext("%(num)s restore test failed", "%(num)s restore tests failed", len(failed))
        names = list(dict.fromkeys(test.name for test in failed))[:3]
        text = _("Backups of these instances did not pass: %(names)s.", names=", ".join(names))
        address = url_for("admin_backup_restore_tests.listing", status="failed")
        yield AttentionItem("danger", "archive", title, text, address)
    if missing_backups:
        title = ngettext(
            "%(num)s running instance has no recent backup",
            "%(num)s running instances have no recent backup",
            missing_backups,
        )
        days = backup_coverage.DEFAULT_MAX_AGE_DAYS
        text = _("They have a backup policy, but no complete backup of the last %(days)d days.", days=days)
        yield AttentionItem("warning", "archive", title, text, url_for("admin_instance_backups.missing", gap="overdue"))


def iter_customer_failures():
    """Yield one item for each kind in CUSTOMER_FAILURE_TITLES: failures in guests or because of customers' input."""
    failures = overview.list_customer_failures(get_start_of_day())
    for kind, format_title in CUSTOMER_FAILURE_TITLES.items():
        if groups := failures.get(kind):
            title = format_title(sum(count for _error, count in groups))
            text = " · ".join(f"{translate(error)} ({count})" for error, count in groups[:3])
            yield AttentionItem("info", "users", title, text, url_for("admin_tasks.failed"))


def iter_capacity_findings(capacities):
    """Yield items for full or nearly full locations, and for hypervisors without KVM."""
    full = overview.list_full_locations(capacities)
    for capacity in full:
        resource, percent = overview.get_fullest_resource(capacity)
        title = _("%(name)s is full", name=capacity.group.display_name)
        text = _("No plan fits. %(usage)s Add a hypervisor.", usage=format_allocation(resource, percent))
        yield AttentionItem("danger", "server-off", title, text, location_url(capacity))
    for capacity in capacities:
        resource, percent = overview.get_fullest_resource(capacity)
        if capacity not in full and capacity.group.enabled and percent >= overview.NEARLY_FULL_PERCENT:
            title = _("%(name)s is nearly full", name=capacity.group.display_name)
            yield AttentionItem(
                "warning", "server", title, format_allocation(resource, percent), location_url(capacity)
            )
    for node in session.scalars(overview.select_unaccelerated_hypervisors().limit(MAX_NAMED_ITEMS)):
        title = _("%(name)s runs without KVM", name=node.name)
        yield AttentionItem("warning", "server", title, node.acceleration_note, hypervisor_url(node))


def format_allocation(resource, percent):
    """Return the sentence that says how much of a location's fullest resource is allocated."""
    if resource == "memory":
        return _("%(percent)d %% of the memory is allocated.", percent=percent)
    if resource == "storage":
        return _("%(percent)d %% of the storage is allocated.", percent=percent)
    return _("%(percent)d %% of the CPU cores are allocated.", percent=percent)


def location_url(room):
    return url_for("admin_hypervisors.index", group=room.group.id)


def build_silent_node_item(node):
    condition = hypervisors.get_condition(node)
    if condition == "down":
        title = _("%(name)s is down", name=node.name)
        return AttentionItem("danger", "server-off", title, node.status_detail, hypervisor_url(node))
    if condition == "unknown":
        title = _("No report from %(name)s yet", name=node.name)
        return AttentionItem("info", "server", title, _("A worker is testing the connection."), hypervisor_url(node))
    title = _("Status of %(name)s is out of date", name=node.name)
    return AttentionItem("warning", "clock", title, _("Its data may be old."), hypervisor_url(node))


def hypervisor_url(node):
    return url_for("admin_hypervisors.show", hypervisor_id=node.id)
