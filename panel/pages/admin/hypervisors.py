"""Hypervisors: state, capacity and instances."""

from datetime import UTC, datetime, timedelta

from flask import Blueprint, abort, request, url_for
from sqlalchemy.orm import selectinload

from panel.auth.browser_session import ensure_permission, get_current_actor, require_page_permission
from panel.core import clock
from panel.core.db import session
from panel.models import Hypervisor, Task
from panel.pages.admin import labels
from panel.pages.shared.instances.load_tiles import build_host_load_tiles
from panel.schemas.constants import HYPERVISOR_STATUSES
from panel.schemas.hypervisors import HypervisorIn, HypervisorPatch
from panel.services import capacity_forecast, hypervisor_outages, hypervisor_removal, hypervisors, instances, tasks
from panel.services.metrics.hosts import get_host_series
from panel.web import charts
from panel.web.forms import Form
from panel.web.htmx import build_action_response, flash_message, redirect_to, render
from panel.web.page_registry import NavigationEntry, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _

bp = Blueprint("admin_hypervisors", __name__, url_prefix="/admin/hypervisors")
NAVIGATION = NavigationEntry(
    "platform",
    "Hypervisors",
    "admin_hypervisors.index",
    icon="server-2",
    permission="admin:hypervisors:read",
    position=10,
    shortcut="h",
    select_attention=lambda _access: hypervisors.select_with_problems(),
)
SEARCH_RESULTS = (
    SearchResults(
        "hypervisor",
        "Hypervisors",
        icon="server-2",
        url=lambda row_id: url_for("admin_hypervisors.show", hypervisor_id=row_id),
    ),
)
READ_PERMISSION, WRITE_PERMISSION = "admin:hypervisors:read", "admin:hypervisors:write"
TEST_TIMEOUT = timedelta(minutes=1)
"""How long a page waits for the result of a connection test."""
HYPERVISOR_DEFAULTS = {
    "driver": "libvirt",
    "uri": "qemu:///system",
    "storage_path": "/var/lib/libvirt/images",
    "network": "public",
    "max_tasks": 4,
    "cpu_overcommit": 4,
    "memory_overcommit": 1,
}
SWITCH_MESSAGES = {
    ("maintenance", "on"): lambda name: _(
        "Maintenance of %(name)s started. No new instances are placed there.", name=name
    ),
    ("maintenance", "off"): lambda name: _("Maintenance of %(name)s ended.", name=name),
    ("locked", "on"): lambda name: _("%(name)s locked. No new instances are placed there.", name=name),
    ("locked", "off"): lambda name: _("%(name)s unlocked.", name=name),
    ("deploy_enabled", "off"): lambda name: _("New placements on %(name)s disabled.", name=name),
    ("deploy_enabled", "on"): lambda name: _("New placements on %(name)s enabled.", name=name),
}
TASKS_PERMISSION = "admin:tasks:read"
ORDERS = {"name": Hypervisor.name}
TASK_ORDERS = {"started": Task.id}


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    status, group = request.args.get("status"), request.args.get("group")
    filters = {"search": request.args.get("search", "")[:255], "group_id": group}
    filters["status"] = status if status in HYPERVISOR_STATUSES else None
    query = hypervisors.with_allocation(hypervisors.listing(**filters))
    page = Page(query.options(selectinload(Hypervisor.storages)), orders=ORDERS)
    context = {
        "condition": hypervisors.get_condition,
        "groups": list_group_options(),
        "statuses": labels.HYPERVISOR_STATUSES.items(),
    }
    return render("admin/hypervisors/index.html", "rows", page=page, filtered=any(filters.values()), **context)


@bp.get("/new")
@require_page_permission(WRITE_PERMISSION)
def new():
    initial = {**HYPERVISOR_DEFAULTS, "hypervisor_group_id": request.args.get("group")}
    return render("admin/hypervisors/new.html", form=Form(HypervisorIn, initial=initial), groups=list_group_options())


@bp.post("/new")
@require_page_permission(WRITE_PERMISSION)
def create():
    """Create the hypervisor. Its page shows the progress of the first probe."""
    form = Form(HypervisorIn)
    if form.submit(create_in_group):
        return redirect_to(url_for(".show", hypervisor_id=form.result.id))
    return render("admin/hypervisors/new.html", "form", status=form.status, form=form, groups=list_group_options())


def create_in_group(hypervisor_group_id, **values):
    return hypervisors.create(hypervisors.get_group(hypervisor_group_id, "hypervisor_group_id"), **values)


def list_group_options():
    return session.execute(hypervisors.select_group_names()).all()


@bp.get("/<hypervisor_id>")
@require_page_permission(READ_PERMISSION)
def show(hypervisor_id):
    hypervisor = hypervisors.get(hypervisor_id)
    requested_at = parse_timestamp(request.args.get("since"))
    storages = session.scalars(hypervisors.select_storages(hypervisor)).all()
    return render(
        "admin/hypervisors/show.html",
        "live",
        hypervisor=hypervisor,
        storages=storages,
        storage_days_left=capacity_forecast.list_storage_days_left(storages),
        condition=hypervisors.get_condition,
        load_tiles=build_host_load_tiles(hypervisor) if hypervisor.version else [],
        test_requested_at=requested_at,
        is_testing=hypervisor.status == "unknown" or is_test_pending(hypervisor, requested_at),
        open_tasks=session.scalars(tasks.listing(status="open", hypervisor_id=hypervisor.id).limit(5)).all(),
    )


def is_test_pending(hypervisor, requested_at):
    """Return whether the result of a test requested at that time is still missing."""
    recent = requested_at and requested_at > clock.now() - TEST_TIMEOUT
    return bool(recent and hypervisor.status == "up" and not (hypervisor.seen_at and hypervisor.seen_at > requested_at))


def parse_timestamp(text):
    try:
        return datetime.fromtimestamp(float(text), UTC)
    except (TypeError, ValueError, OverflowError):
        return None


@bp.get("/<hypervisor_id>/metrics")
@require_page_permission(READ_PERMISSION)
def show_metrics(hypervisor_id):
    hypervisor = hypervisors.get(hypervisor_id)
    series = load_series(hypervisor)
    context = {"series": series, "charts": charts, "condition": hypervisors.get_condition}
    return render("admin/hypervisors/metrics.html", hypervisor=hypervisor, **context)


def load_series(hypervisor):
    """Return the requested series of the hypervisor, with its charts."""
    series = get_host_series(hypervisor, charts.parse_requested_range(request.args.get("range")))
    return series | {"charts": charts.HYPERVISOR_CHARTS}


@bp.get("/<hypervisor_id>/metrics/data")
@require_page_permission(READ_PERMISSION)
def show_metrics_data(hypervisor_id):
    """Return the chart data as JSON, for the page's script."""
    hypervisor = hypervisors.get(hypervisor_id)
    series = load_series(hypervisor)
    return charts.build_plot_data(series, {"cpu_percent": 100, "memory_used": hypervisor.memory_mb})


@bp.get("/<hypervisor_id>/instances")
@require_page_permission(READ_PERMISSION)
def machines(hypervisor_id):
    hypervisor = hypervisors.get(hypervisor_id)
    page = Page(instances.select_list_rows(hypervisor_id=hypervisor.id))
    return render(
        "admin/hypervisors/instances.html",
        "rows",
        hypervisor=hypervisor,
        page=page,
        condition=hypervisors.get_condition,
    )


@bp.get("/<hypervisor_id>/tasks")
@require_page_permission(READ_PERMISSION)
def list_tasks(hypervisor_id):
    ensure_permission(TASKS_PERMISSION)
    hypervisor = hypervisors.get(hypervisor_id)
    page = Page(tasks.listing(hypervisor_id=hypervisor.id), orders=TASK_ORDERS)
    context = {"page": page, "condition": hypervisors.get_condition}
    return render("admin/hypervisors/tasks.html", "rows", hypervisor=hypervisor, **context)


@bp.get("/<hypervisor_id>/outages")
@require_page_permission(READ_PERMISSION)
def list_outages(hypervisor_id):
    hypervisor = hypervisors.get(hypervisor_id)
    page = Page(hypervisor_outages.listing(hypervisor))
    context = {"page": page, "retention": hypervisor_outages.RETENTION, "condition": hypervisors.get_condition}
    return render("admin/hypervisors/outages.html", "rows", hypervisor=hypervisor, **context)


@bp.get("/<hypervisor_id>/edit")
@require_page_permission(READ_PERMISSION)
def edit(hypervisor_id):
    hypervisor = hypervisors.get(hypervisor_id)
    initial = {name: getattr(hypervisor, name) for name in HypervisorPatch().fields if name != "hypervisor_group_id"}
    form = Form(HypervisorPatch, initial={**initial, "hypervisor_group_id": hypervisor.group_id})
    return edit_page(hypervisor, form)


@bp.post("/<hypervisor_id>/edit")
@require_page_permission(WRITE_PERMISSION)
def update(hypervisor_id):
    hypervisor = hypervisors.get(hypervisor_id)
    form = Form(HypervisorPatch)
    if form.submit(lambda **data: hypervisors.update(hypervisor, **data)):
        flash_message(_("Hypervisor %(name)s saved.", name=hypervisor.name))
        return redirect_to(url_for(".show", hypervisor_id=hypervisor.id))
    return edit_page(hypervisor, form)


def edit_page(hypervisor, form):
    context = {
        "groups": list_group_options(),
        "condition": hypervisors.get_condition,
        "contents": hypervisor_removal.count_contents(hypervisor),
    }
    return render(
        "admin/hypervisors/edit.html", "form", status=form.status, hypervisor=hypervisor, form=form, **context
    )


@bp.post("/<hypervisor_id>/test")
@require_page_permission(WRITE_PERMISSION)
def test(hypervisor_id):
    hypervisor = hypervisors.get(hypervisor_id)
    hypervisors.test(hypervisor)
    return redirect_to(url_for(".show", hypervisor_id=hypervisor.id, since=clock.now().timestamp()))


@bp.post("/<hypervisor_id>/switch/<flag>/<to>")
@require_page_permission(WRITE_PERMISSION)
def switch(hypervisor_id, flag, to):
    message = SWITCH_MESSAGES.get((flag, to)) or abort(404)
    hypervisor = hypervisors.update(hypervisors.get(hypervisor_id), **{flag: to == "on"})
    return build_action_response(message(hypervisor.name), url_for(".show", hypervisor_id=hypervisor.id))


@bp.post("/<hypervisor_id>/delete")
@require_page_permission(WRITE_PERMISSION)
def delete(hypervisor_id):
    hypervisor = hypervisors.get(hypervisor_id)
    hypervisors.delete(hypervisor)
    flash_message(_("%(name)s removed from the panel. Nothing was changed on the host.", name=hypervisor.name))
    return redirect_to(url_for(".index"))


@bp.post("/<hypervisor_id>/give-up")
@require_page_permission(WRITE_PERMISSION)
def give_up(hypervisor_id):
    """Remove a lost hypervisor. Requires its name, because its machines are lost for their owners, too."""
    hypervisor = hypervisors.get(hypervisor_id)
    hypervisor_removal.force_remove(hypervisor, name=request.form.get("typed", "").strip(), actor=get_current_actor())
    flash_message(_("%(name)s and everything on it removed from the panel.", name=hypervisor.name))
    return redirect_to(url_for(".index"))
