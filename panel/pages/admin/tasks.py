"""All customers' tasks, with the nodes' messages of failed ones."""

from datetime import timedelta

from flask import Blueprint, request, url_for
from sqlalchemy import select

from panel.auth.browser_session import require_page_permission
from panel.core import clock
from panel.core.db import session
from panel.core.task_kinds import task_label
from panel.models import Account, Hypervisor, Image, Instance, Iso, Microvm, Task, Volume
from panel.pages.shared import followed_tasks
from panel.pages.shared.task_retries import build_retry, find_next_attempt
from panel.services import failed_jobs, hypervisors, overview, tasks
from panel.web.failure_labels import group_failures
from panel.web.htmx import build_action_response, render
from panel.web.page_registry import NavigationEntry, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

bp = Blueprint("admin_tasks", __name__, url_prefix="/admin/tasks")
NAVIGATION = NavigationEntry(
    "resources",
    "Tasks",
    "admin_tasks.index",
    icon="list-check",
    permission="admin:tasks:read",
    position=80,
    shortcut="t",
    select_attention=lambda _access: overview.select_recent_failures(),
)
SEARCH_RESULTS = (
    SearchResults(
        "task",
        "Tasks",
        icon="list-check",
        url=lambda row_id: url_for("admin_tasks.show", task_id=row_id),
        label_of=lambda kind: _(task_label(kind)),
    ),
)
READ_PERMISSION, WRITE_PERMISSION = "admin:tasks:read", "admin:tasks:write"
STATUS_FILTERS = {
    "failed": lazy_gettext("Failed"),
    "open": lazy_gettext("In progress"),
    "running": lazy_gettext("Running"),
    "completed": lazy_gettext("Completed"),
    "cancelled": lazy_gettext("Cancelled"),
}

DEFAULT_SINCE = "day"
SINCE_OPTIONS = {
    "hour": (timedelta(hours=1), lazy_gettext("Last hour")),
    DEFAULT_SINCE: (timedelta(days=1), lazy_gettext("Last day")),
    "week": (timedelta(days=7), lazy_gettext("Last week")),
    "ever": (None, lazy_gettext("All time")),
}
ORDERS = {"started": Task.id}
followed_tasks.VIEWS.register(bp, is_operator_area=True)


@bp.get("")
@require_page_permission(READ_PERMISSION)
def index():
    filters = {"status": request.args.get("status"), "search": request.args.get("search", "")[:255]}
    filters["status"] = filters["status"] if filters["status"] in STATUS_FILTERS else None
    filters |= {"kind": request.args.get("kind"), "hypervisor_id": request.args.get("node")}
    page = Page(tasks.listing(**filters), orders=ORDERS)
    context = {"chosen_status": filters["status"], "filtered": any(filters.values()), "filters": STATUS_FILTERS.items()}
    context |= {"kinds": tasks.list_kinds, "hosts": lambda: session.execute(hypervisors.select_names()).all()}
    return render("admin/tasks/index.html", "rows", page=page, nodes=map_hypervisor_names(page.rows), **context)


def map_hypervisor_names(rows):
    """Return {hypervisor id: name} of these tasks."""
    ids = {task.hypervisor_id for task in rows}
    return dict(session.execute(select(Hypervisor.id, Hypervisor.name).where(Hypervisor.id.in_(ids))).all())


@bp.get("/failed")
@require_page_permission(READ_PERMISSION)
def failed():
    """Show failed tasks, grouped by cause and counted."""
    choice = request.args.get("since") if request.args.get("since") in SINCE_OPTIONS else DEFAULT_SINCE
    since, _label = SINCE_OPTIONS[choice]
    groups = group_failures(failed_jobs.list_groups(since and clock.now() - since))
    ranges = [(name, label) for name, (_period, label) in SINCE_OPTIONS.items()]
    context = {"groups": groups, "ranges": ranges, "since": choice}
    return render("admin/tasks/failed.html", "rows", total=sum(group.count for group in groups), **context)


@bp.get("/<task_id>")
@require_page_permission(READ_PERMISSION)
def show(task_id):
    task = tasks.get(task_id)
    return render(
        "admin/tasks/show.html",
        "live",
        task=task,
        instance=session.get(Instance, task.resource_id) if task.resource_type == "instance" else None,
        node=task.hypervisor_id and session.get(Hypervisor, task.hypervisor_id),
        links=build_resource_links(task),
        retry=build_retry(task),
        next_attempt=find_next_attempt(task),
        owner=task.account_id and session.get(Account, task.account_id),
    )


RESOURCE_LINKS = {
    "volume": (lazy_gettext("Volume"), "database", "admin_volumes.show", "volume_id", Volume),
    "microvm": (lazy_gettext("Micro VM"), "cpu", "admin_microvms.show", "microvm_id", Microvm),
    "iso": ("ISO", "disc", "admin_isos.show", "iso_id", Iso),
    "image": (lazy_gettext("Image"), "copy", "admin_images.show", "image_id", Image),
}
"""{resource type: (label, icon, endpoint, name of its id argument, model)}"""


def build_resource_links(task):
    """Return the link to the task's resource, if that exists. Instances and hypervisors have links of their own."""
    label, symbol, endpoint, argument, model = RESOURCE_LINKS.get(task.resource_type, (None,) * 5)
    row = model and session.get(model, task.resource_id)
    return [(label, url_for(endpoint, **{argument: row.id}), symbol)] if row else []


@bp.post("/<task_id>/cancel")
@require_page_permission(WRITE_PERMISSION)
def cancel(task_id):
    task = tasks.cancel(tasks.get(task_id))
    return build_action_response(_("Cancellation requested."), url_for(".show", task_id=task.id), "info")


@bp.post("/<task_id>/mark-failed")
@require_page_permission(WRITE_PERMISSION)
def mark_failed(task_id):
    task = tasks.mark_failed(tasks.get(task_id))
    return build_action_response(
        _("The task will end as failed at its next step."), url_for(".show", task_id=task.id), "info"
    )
