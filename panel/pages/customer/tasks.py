"""Tasks of the account's resources, with status and progress."""

from datetime import timedelta

from flask import Blueprint, request, url_for
from sqlalchemy import select

from panel.auth.browser_session import get_current_access, require_page_permission
from panel.core import clock
from panel.core.db import literal_limit, session
from panel.core.task_kinds import task_label
from panel.models import Image, Instance, Iso, Microvm, MicrovmImage, Task, Volume
from panel.pages.shared import followed_tasks
from panel.pages.shared.task_retries import build_retry, find_next_attempt
from panel.schemas.constants import TASK_STATUSES
from panel.services import tasks
from panel.web.htmx import build_action_response, render
from panel.web.page_registry import NavigationEntry, SearchResults
from panel.web.paging import Page
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

bp = Blueprint("tasks", __name__, url_prefix="/tasks")
NAVIGATION = NavigationEntry(
    "watch", "Tasks", "tasks.index", icon="list-check", permission="instances.view", position=10, shortcut="t"
)
SEARCH_RESULTS = (
    SearchResults(
        "task",
        "Tasks",
        icon="list-check",
        url=lambda row: url_for("tasks.show", task_id=row.id),
        label_of=lambda kind: _(task_label(kind)),
    ),
)
MAX_MENU_TASKS = 6
"""Maximum of recent tasks that are shown."""
RESULT_AGE = timedelta(minutes=2)
"""How long the result of a task is a message for pages that show the task as open."""
FAILURE_AGE = timedelta(days=1)
"""How long the button of the menu has a mark for a failed task that nobody has seen there."""
SEEN_TASK_COOKIE = "panel-seen-task"
"""The newest failed task that was in the open menu: static/app.js sets it."""
STATUS_FILTERS = ("open", *(word for word in TASK_STATUSES if word not in ("pending", "queued")))
ORDERS = {"started": Task.id}
followed_tasks.VIEWS.register(bp)


@bp.get("")
@require_page_permission("instances.view")
def index():
    status = request.args.get("status")
    status = status if status in STATUS_FILTERS else None
    page = Page(
        tasks.listing(get_current_access(), status=status, search=request.args.get("search", "")[:255]), orders=ORDERS
    )
    return render(
        "customer/tasks/index.html",
        "rows",
        page=page,
        chosen_status=status,
        filters=STATUS_FILTERS,
        instance_names=find_instance_names(page.rows),
    )


@bp.get("/<task_id>")
@require_page_permission("instances.view")
def show(task_id):
    task = tasks.get(task_id, get_current_access())
    return render(
        "customer/tasks/show.html",
        "live",
        task=task,
        instance_names=find_instance_names([task]),
        **build_follow_up(task),
    )


RESOURCE_LINKS = {
    "volume": (lazy_gettext("Volume"), "database", "volumes.show", "volume_id", Volume),
    "microvm": (lazy_gettext("Micro VM"), "cpu", "microvms.show", "microvm_id", Microvm),
    "microvm_image": (lazy_gettext("Image"), "copy", "microvm_images.show", "image_id", MicrovmImage),
    "iso": ("ISOs", "disc", "isos.index", None, Iso),
    "image": (lazy_gettext("Images"), "copy", "images.index", None, Image),
}
"""{resource type: (label, icon, endpoint, name of its id argument, model)}"""


def build_follow_up(task):
    """Return the link to a task's resource, and how to try a failed task again."""
    context = {"links": [], "retry": build_retry(task), "next_attempt": find_next_attempt(task)}
    label, symbol, endpoint, argument, model = RESOURCE_LINKS.get(task.resource_type, (None,) * 5)
    row = model and session.get(model, task.resource_id)
    if row and row.account_id == get_current_access().id and not getattr(row, "ended_at", None):
        context["links"] = [(label, url_for(endpoint, **({argument: row.id} if argument else {})), symbol)]
    return context


@bp.post("/<task_id>/cancel")
@require_page_permission("instances.manage")
def cancel(task_id):
    task = tasks.cancel(tasks.get(task_id, get_current_access()))
    return build_action_response(_("Cancellation requested."), url_for(".show", task_id=task.id), "info")


@bp.get("/tray")
@require_page_permission("instances.view")
def show_recent_tasks():
    return render("layout/recent_tasks.html", "recent_tasks", recent_tasks=list_recent_tasks(get_current_access()))


def find_instance_names(rows):
    """Return {id: name} of the tasks' instances that still exist."""
    names = select(Instance.id, Instance.display_name)
    return dict(session.execute(names.where(Instance.id.in_({task.resource_id for task in rows}))).all())


def is_new_failure(task):
    return task.status == "failed" and bool(task.finished_at) and task.finished_at > clock.now() - FAILURE_AGE


def list_recent_tasks(access, *, has_open_tasks=True):
    """Return recent tasks: open ones first, then finished ones. `results` are those of the viewer that have just
    ended, `new_failures` those that failed lately and that the viewer has not seen in the menu."""
    name = select(Instance.display_name).where(Instance.id == Task.resource_id).scalar_subquery()
    limit = literal_limit(MAX_MENU_TASKS)
    open_query = tasks.listing(access, status="open").add_columns(name).limit(limit)
    open_rows = session.execute(open_query).all() if has_open_tasks else []
    recent_rows = session.execute(tasks.listing(access).add_columns(name).limit(limit)).all()
    open_tasks = [task for task, _name in open_rows]
    ended = [task for task, _name in recent_rows if not task.open]
    listed = open_tasks + ended[: max(2, MAX_MENU_TASKS - len(open_tasks))]
    since = clock.now() - RESULT_AGE
    seen_id = request.cookies.get(SEEN_TASK_COOKIE, "")
    return {
        "open_tasks": open_tasks,
        "listed_tasks": listed,
        "new_failures": [task for task in ended if is_new_failure(task) and task.id > seen_id],
        "instance_names": {task.resource_id: name for task, name in (*open_rows, *recent_rows) if name},
        "results": [task for task in ended if task.actor == access.actor and (task.finished_at or since) > since],
    }
