"""Tasks: what was done to the account's resources, and how far it is."""

from flask import Blueprint, request, url_for
from sqlalchemy import select

from panel.auth.browser_session import page_can, refusal, viewer
from panel.core.db import session
from panel.models import Image, Instance, Iso, MediaDownload, Volume
from panel.pages.shared.instances.power_buttons import CONTROLS
from panel.schemas.constants import TASK_STATUSES
from panel.services import tasks
from panel.web.htmx import did, render
from panel.web.paging import Page

bp = Blueprint("tasks", __name__, url_prefix="/tasks")
LATEST = 6
"""How many the tray shows."""
FILTERS = ("open", *(word for word in TASK_STATUSES if word not in ("pending", "queued")))


@bp.get("")
@page_can("instances.view")
def index():
    status = request.args.get("status")
    status = status if status in FILTERS else None
    page = Page(tasks.listing(viewer(), status=status, search=request.args.get("search", "")[:255]))
    return render("user/tasks/index.html", "rows", page=page, wanted=status, filters=FILTERS, there=there(page.rows))


@bp.get("/<task_id>")
@page_can("instances.view")
def show(task_id):
    task = tasks.get(task_id, viewer())
    return render("user/tasks/show.html", "live", task=task, there=there([task]), **follow_up(task))


LINKS = {
    "volume": ("Volume", "database", "volumes.show", "volume_id", Volume),
    "iso": ("ISOs", "disc", "isos.index", None, Iso),
    "image": ("Images", "copy", "images.index", None, Image),
}
"""The page of what a task was for, by the type of the resource: label, icon, page, the name of its id."""
POWER = {f"instance_{control.action}": control.action for control in CONTROLS}


def follow_up(task):
    """Where the resource of a task is, and how a failed one can be repeated: only what can be requested again as it
    was. A power action and the download of an ISO can."""
    found = {"links": [], "retry": None, "no_retry": None, "next_attempt": None}
    label, symbol, endpoint, argument, model = LINKS.get(task.resource_type, (None,) * 5)
    row = model and session.get(model, task.resource_id)
    if row and row.account_id == viewer().id:
        found["links"] = [(label, url_for(endpoint, **({argument: row.id} if argument else {})), symbol)]
    if task.status != "failed":
        return found
    if task.kind in POWER and there([task]):
        found["retry"] = url_for("instances.power", instance_id=task.resource_id, action=POWER[task.kind])
        found["no_retry"] = refusal("instances.power")
    if row and task.resource_type == "iso":
        found["retry"], found["no_retry"] = url_for("isos.retry", iso_id=row.id), refusal("isos.manage")
        waiting = select(MediaDownload.next_attempt_at).where(MediaDownload.iso_id == row.id)
        found["next_attempt"] = session.scalar(waiting.order_by(MediaDownload.next_attempt_at).limit(1))
    return found


@bp.post("/<task_id>/cancel")
@page_can("instances.manage")
def cancel(task_id):
    task = tasks.cancel(tasks.get(task_id, viewer()))
    return did("Cancellation requested.", url_for(".show", task_id=task.id), "info")


@bp.get("/tray")
@page_can("instances.view")
def tray():
    return render("layout/recent_tasks.html", "tray", tray=latest(viewer()))


def there(rows):
    """The names of the instances that still exist, by id: a task outlives what it destroyed."""
    names = select(Instance.id, Instance.display_name)
    return dict(session.execute(names.where(Instance.id.in_({task.resource_id for task in rows}))).all())


def latest(account):
    """For the tray: what is open, then what has ended."""
    opened = session.scalars(tasks.listing(account, status="open").limit(LATEST)).all()
    ended = [task for task in session.scalars(tasks.listing(account).limit(LATEST)) if not task.open]
    shown = opened + ended[: max(2, LATEST - len(opened))]
    return {"open": opened, "shown": shown, "there": there(shown)}
