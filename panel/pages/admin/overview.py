"""The operators' first page: what needs attention, how full the platform is, what is being done."""

from dataclasses import dataclass
from datetime import timedelta
from zoneinfo import ZoneInfo

from flask import Blueprint, url_for
from sqlalchemy import func, select

from panel.auth.browser_session import me, page_can
from panel.core import clock
from panel.core.db import session
from panel.models import Hypervisor, HypervisorGroup, Image, Plan, Subnet
from panel.services import hypervisors, overview, tasks
from panel.web.formatting import plural
from panel.web.htmx import render

bp = Blueprint("admin", __name__, url_prefix="/admin")
LEVELS = ("danger", "warning", "info")
MOST = 8
"""How many of a kind the page names; the lists have the rest."""
NEEDED = (
    (HypervisorGroup, "Add a location", "Customers choose one first.", "admin_hypervisor_groups.new"),
    (Hypervisor, "Add a hypervisor", "Without a host no machine can run.", "admin_hypervisors.new"),
    (Subnet, "Add a subnet", "Machines get their addresses from it.", "admin_subnets.new"),
    (Plan, "Add a plan", "It says how large a machine is and what it costs.", "admin_plans.index"),
    (Image, "Build an image", "Machines are made from it.", "admin_images.index"),
)
"""What a new installation lacks, in the order in which it is needed."""
CUSTOMERS_FAILURES = {
    "guests": ("failed task", "in customers' guests"),
    "downloads": ("failed download", "of customers"),
    "certificates": ("failed order", "of customers' certificates"),
}


@bp.get("")
@page_can("admin:system:read")
def show():
    running = tasks.listing(status="open")
    lately = overview.failed_since(midnight())
    failed, failures = count(lately), session.scalars(lately.limit(MOST)).all()
    rooms = overview.capacity()
    return render(
        "admin/overview/show.html",
        "live",
        items=attention(failed, failures, rooms),
        rooms=rooms,
        states=overview.states(),
        work=session.scalars(running.limit(MOST)).all(),
        working=count(running),
        failures=failures,
        failed=failed,
    )


def count(query):
    return session.scalar(select(func.count()).select_from(query.order_by(None).subquery()))


def midnight():
    """When the operator's day began; an operator at night still sees the evening."""
    now = clock.now().astimezone(ZoneInfo(me().timezone))
    return min(now.replace(hour=0, minute=0, second=0, microsecond=0), now - timedelta(hours=8))


@dataclass
class Item:
    """Something that somebody should look at."""

    level: str
    symbol: str
    title: str
    text: str | None
    address: str


def attention(failed, failures, rooms):
    """Everything of that kind, the worst first."""
    return sorted([*findings(failed, failures), *capacity_findings(rooms)], key=lambda item: LEVELS.index(item.level))


def findings(failed, failures):
    alive = overview.workers_alive()
    if not alive:
        why = "Redis does not answer, so workers hear of tasks late." if alive is None else "Tasks wait until one runs."
        address = url_for("admin_tasks.index", status="open")
        yield Item("danger", "plug-connected-x", "No worker is known to run", why, address)
    yield from (silent(node) for node in session.scalars(hypervisors.ailing().limit(MOST)))
    if failed:
        text = f"The last one: {failures[0].resource_name}: {failures[0].error}"
        title = f"{plural(failed, 'task')} failed today"
        yield Item("danger", "circle-x", title, text, url_for("admin_tasks.index", status="failed"))
    yield from customer_failures()
    for instance in session.scalars(overview.lost_instances().limit(MOST)):
        address = url_for("admin_instances.show", instance_id=instance.id)
        title = f"{instance.name} is missing on its hypervisor"
        yield Item("danger", "zoom-question", title, instance.last_error, address)
    for volume in session.scalars(overview.undeleted_volumes().limit(MOST)):
        title = f"The deleted volume {volume.name} still exists"
        text = f"{plural(volume.delete_attempts, 'attempt')} to remove it failed. The last one: {volume.error}"
        yield Item("danger", "database", title, text, url_for("admin_volumes.index", search=volume.name))
    for storage in overview.full_storages():
        title = f"Storage {storage.name} on {storage.hypervisor.name} is nearly full"
        left = f"{storage.free * 100 // storage.capacity} % of the disk is free."
        yield Item("warning", "database", title, left, page_of(storage.hypervisor))
    for group, free in overview.scarce_locations():
        title = f"{group.display_name} is running out of IPv4 addresses"
        left = f"{plural(free, 'address', 'addresses')} left. Add a subnet."
        yield Item("warning", "network", title, left, url_for("admin_subnets.index"))
    for model, title, text, endpoint in NEEDED:
        if session.scalar(select(model.id).limit(1)) is None:
            yield Item("info", "plus", title, text, url_for(endpoint))
    for node in session.scalars(hypervisors.with_strangers().limit(MOST)):
        title = f"{plural(len(node.strangers), 'unknown machine')} on {node.name}"
        names = ", ".join(stranger["name"] for stranger in node.strangers[:3])
        yield Item("info", "help-circle", title, f"On the host, but no instance of this panel: {names}.", page_of(node))


def customer_failures():
    """What failed in customers' guests or because of what they entered: one entry for each of `CUSTOMERS_FAILURES`."""
    found = overview.customer_failures(midnight())
    for what, (noun, whose) in CUSTOMERS_FAILURES.items():
        if groups := found.get(what):
            title = f"{plural(sum(count for _, count in groups), noun)} {whose} today"
            text = " · ".join(f"{error} ({count})" for error, count in groups[:3])
            yield Item("info", "users", title, text, url_for("admin_tasks.failed"))


def capacity_findings(rooms):
    """Locations that are full or nearly so, and hypervisors that are slow for lack of KVM."""
    full = overview.full_locations(rooms)
    for room in full:
        resource, percent = overview.fullest(room)
        text = f"No plan fits any more: {percent:.0f} % of the {resource} is allocated. Add a hypervisor."
        yield Item("danger", "server-off", f"{room.group.display_name} is full", text, location_address(room))
    for room in rooms:
        resource, percent = overview.fullest(room)
        if room not in full and room.group.enabled and percent >= overview.NEARLY_FULL_PERCENT:
            title = f"{room.group.display_name} is nearly full"
            text = f"{percent:.0f} % of the {resource} is allocated."
            yield Item("warning", "server", title, text, location_address(room))
    for node in session.scalars(overview.unaccelerated_nodes().limit(MOST)):
        yield Item("warning", "server", f"{node.name} runs without KVM", node.acceleration_note, page_of(node))


def location_address(room):
    return url_for("admin_hypervisors.index", group=room.group.id)


def silent(node):
    condition = hypervisors.condition(node)
    if condition == "down":
        return Item("danger", "server-off", f"{node.name} is down", node.status_detail, page_of(node))
    if condition == "unknown":
        return Item("info", "server", f"{node.name} has not answered yet", "A worker looks at it.", page_of(node))
    title = f"{node.name} was not looked at for a while"
    return Item("warning", "clock", title, "Its figures may be old.", page_of(node))


def page_of(node):
    return url_for("admin_hypervisors.show", hypervisor_id=node.id)
