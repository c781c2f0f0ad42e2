"""The operators' first page: items that need attention, capacity, open tasks."""

from dataclasses import dataclass
from datetime import timedelta
from zoneinfo import ZoneInfo

from flask import Blueprint, url_for
from sqlalchemy import func, select

from panel.auth.browser_session import current_account, require_page_permission
from panel.core import clock
from panel.core.db import session
from panel.models import Hypervisor, HypervisorGroup, Image, Plan, Subnet
from panel.services import hypervisors, overview, tasks
from panel.web.formatting import plural
from panel.web.htmx import render
from panel.web.page_registry import NavigationEntry

bp = Blueprint("admin", __name__, url_prefix="/admin")
NAVIGATION = NavigationEntry(
    "", "Overview", "admin.show", icon="layout-dashboard", permission="admin:system:read", position=10
)
SEVERITY_LEVELS = ("danger", "warning", "info")
MAX_NAMED_ITEMS = 8
"""Maximum of items of a kind on the page; the lists have the rest."""
SETUP_STEPS = (
    (HypervisorGroup, "Add a location", "Customers choose one first.", "admin_hypervisor_groups.new"),
    (Hypervisor, "Add a hypervisor", "Without a host no machine can run.", "admin_hypervisors.new"),
    (Subnet, "Add a subnet", "Machines get their addresses from it.", "admin_subnets.new"),
    (Plan, "Add a plan", "It says how large a machine is and what it costs.", "admin_plans.index"),
    (Image, "Build an image", "Machines are made from it.", "admin_images.index"),
)
"""The setup steps of a new installation, in order: model, title, text, endpoint."""
CUSTOMERS_FAILURES = {
    "guests": ("failed task", "in customers' guests"),
    "downloads": ("failed download", "of customers"),
    "certificates": ("failed order", "of customers' certificates"),
}


@bp.get("")
@require_page_permission("admin:system:read")
def show():
    running = tasks.listing(status="open")
    lately = overview.select_failed_since(start_of_day())
    failed, failures = count_rows(lately), session.scalars(lately.limit(MAX_NAMED_ITEMS)).all()
    rooms = overview.list_capacities()
    return render(
        "admin/overview/show.html",
        "live",
        items=sort_findings(failed, failures, rooms),
        rooms=rooms,
        states=overview.count_states(),
        work=session.scalars(running.limit(MAX_NAMED_ITEMS)).all(),
        working=count_rows(running),
        failures=failures,
        failed=failed,
    )


def count_rows(query):
    return session.scalar(select(func.count()).select_from(query.order_by(None).subquery()))


def start_of_day():
    """Return midnight of the operator's time zone, but at least eight hours ago."""
    now = clock.now().astimezone(ZoneInfo(current_account().timezone))
    return min(now.replace(hour=0, minute=0, second=0, microsecond=0), now - timedelta(hours=8))


@dataclass
class AttentionItem:
    """An item that needs an operator's attention."""

    level: str
    symbol: str
    title: str
    text: str | None
    address: str


def sort_findings(failed, failures, rooms):
    """Return all attention items, most severe first."""
    return sorted(
        [*iter_findings(failed, failures), *iter_capacity_findings(rooms)],
        key=lambda item: SEVERITY_LEVELS.index(item.level),
    )


def iter_findings(failed, failures):
    alive = overview.count_workers()
    if not alive:
        reason = (
            "Redis does not answer, so workers hear of tasks late." if alive is None else "Tasks wait until one runs."
        )
        address = url_for("admin_tasks.index", status="open")
        yield AttentionItem("danger", "plug-connected-x", "No worker is known to run", reason, address)
    yield from (silent_node_item(node) for node in session.scalars(hypervisors.with_problems().limit(MAX_NAMED_ITEMS)))
    if failed:
        text = f"The last one: {failures[0].resource_name}: {failures[0].error}"
        title = f"{plural(failed, 'task')} failed today"
        yield AttentionItem("danger", "circle-x", title, text, url_for("admin_tasks.index", status="failed"))
    yield from iter_customer_failures()
    for instance in session.scalars(overview.select_missing_instances().limit(MAX_NAMED_ITEMS)):
        address = url_for("admin_instances.show", instance_id=instance.id)
        title = f"{instance.name} is missing on its hypervisor"
        yield AttentionItem("danger", "zoom-question", title, instance.last_error, address)
    for volume in session.scalars(overview.select_undeleted_volumes().limit(MAX_NAMED_ITEMS)):
        title = f"The deleted volume {volume.name} still exists"
        text = f"{plural(volume.delete_attempts, 'attempt')} to remove it failed. The last one: {volume.error}"
        yield AttentionItem("danger", "database", title, text, url_for("admin_volumes.index", search=volume.name))
    for storage in overview.list_full_storages():
        title = f"Storage {storage.name} on {storage.hypervisor.name} is nearly full"
        remaining = f"{storage.free * 100 // storage.capacity} % of the disk is free."
        yield AttentionItem("warning", "database", title, remaining, hypervisor_url(storage.hypervisor))
    for group, free in overview.list_scarce_locations():
        title = f"{group.display_name} is running out of IPv4 addresses"
        remaining = f"{plural(free, 'address', 'addresses')} left. Add a subnet."
        yield AttentionItem("warning", "network", title, remaining, url_for("admin_subnets.index"))
    for model, title, text, endpoint in SETUP_STEPS:
        if session.scalar(select(model.id).limit(1)) is None:
            yield AttentionItem("info", "plus", title, text, url_for(endpoint))
    for node in session.scalars(hypervisors.with_unmanaged_machines().limit(MAX_NAMED_ITEMS)):
        title = f"{plural(len(node.unmanaged_machines), 'unknown machine')} on {node.name}"
        names = ", ".join(stranger["name"] for stranger in node.unmanaged_machines[:3])
        yield AttentionItem(
            "info", "help-circle", title, f"On the host, but no instance of this panel: {names}.", hypervisor_url(node)
        )


def iter_customer_failures():
    """Yield one item for each kind in CUSTOMERS_FAILURES: failures in guests or because of customers' input."""
    failures = overview.list_customer_failures(start_of_day())
    for kind, (noun, cause) in CUSTOMERS_FAILURES.items():
        if groups := failures.get(kind):
            title = f"{plural(sum(count for _, count in groups), noun)} {cause} today"
            text = " · ".join(f"{error} ({count})" for error, count in groups[:3])
            yield AttentionItem("info", "users", title, text, url_for("admin_tasks.failed"))


def iter_capacity_findings(rooms):
    """Yield items for full or nearly full locations, and for hypervisors without KVM."""
    full = overview.list_full_locations(rooms)
    for room in full:
        resource, percent = overview.get_fullest_resource(room)
        text = f"No plan fits any more: {percent:.0f} % of the {resource} is allocated. Add a hypervisor."
        yield AttentionItem("danger", "server-off", f"{room.group.display_name} is full", text, location_url(room))
    for room in rooms:
        resource, percent = overview.get_fullest_resource(room)
        if room not in full and room.group.enabled and percent >= overview.NEARLY_FULL_PERCENT:
            title = f"{room.group.display_name} is nearly full"
            text = f"{percent:.0f} % of the {resource} is allocated."
            yield AttentionItem("warning", "server", title, text, location_url(room))
    for node in session.scalars(overview.select_unaccelerated_hypervisors().limit(MAX_NAMED_ITEMS)):
        yield AttentionItem(
            "warning", "server", f"{node.name} runs without KVM", node.acceleration_note, hypervisor_url(node)
        )


def location_url(room):
    return url_for("admin_hypervisors.index", group=room.group.id)


def silent_node_item(node):
    condition = hypervisors.get_condition(node)
    if condition == "down":
        return AttentionItem("danger", "server-off", f"{node.name} is down", node.status_detail, hypervisor_url(node))
    if condition == "unknown":
        return AttentionItem(
            "info", "server", f"{node.name} has not answered yet", "A worker looks at it.", hypervisor_url(node)
        )
    title = f"{node.name} was not looked at for a while"
    return AttentionItem("warning", "clock", title, "Its figures may be old.", hypervisor_url(node))


def hypervisor_url(node):
    return url_for("admin_hypervisors.show", hypervisor_id=node.id)
