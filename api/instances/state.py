"""Compact responses for polling: state, installation and events of an instance."""

from marshmallow import fields
from sqlalchemy import select

from api import kit
from api.instances import user
from api.instances.customer import get_own_instance
from panel.core.db import session
from panel.models import Task
from panel.models.tasks import OPEN_STATUSES
from panel.schemas.base import Out, Schema, Time, describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.schemas.tasks import TaskLogOut, TaskOut
from panel.services import events, instances


class InstanceInBrief(Out):
    id = fields.String(**describe("Instance id.", EXAMPLE_ID))
    name = fields.String(**describe("Name assigned by the platform.", "h1042"))
    status = fields.Integer(**describe("0 stopped, 1 running, 2 suspended.", 1))
    state = fields.String(**describe("`migrating`, `pending`, `suspended`, `running` or `stopped`.", "running"))
    deployed = fields.Boolean(**describe("Whether it has an operating system.", True))
    task_running = fields.Boolean(**describe("Whether a task is queued or running.", False))
    last_error = fields.String(allow_none=True, **describe("Last error, as long as it is relevant.", None))
    task = fields.Nested(TaskOut, allow_none=True, **describe("The oldest open task; null if there is none."))


class EventOut(Out):
    id = fields.String(**describe("Event id.", EXAMPLE_ID))
    kind = fields.String(**describe("Event kind, as in webhooks.", "instance.status_changed"))
    actor = fields.String(allow_none=True, **describe("Who caused the event.", "customer@example.com"))
    data = fields.Dict(**describe("Details of the event.", {"status": "running", "previous": "stopped"}))
    created_at = Time(**describe("When it happened.", "2026-01-02T03:04:05.678Z"))


INSTALLATION_FIELDS = {
    "task": fields.Nested(TaskOut, allow_none=True, **describe("The current or latest installation task.")),
    "logs": fields.List(fields.Nested(TaskLogOut), **describe("Log lines, oldest first.")),
}


@user.get("/instance/<instance_id>/fetch", op="fetch", can="instances.view", out=InstanceInBrief)
def show_state(instance_id):
    """Get the state of an instance and its open task.

    Faster than getting the whole instance, for frequent polling.
    """
    instance = get_own_instance(instance_id)
    open_tasks = select(Task).where(Task.resource_id == instance.id, Task.status.in_(OPEN_STATUSES))
    instance.task = session.scalar(open_tasks.order_by(Task.id).limit(1))
    return instance


@user.get(
    "/instance/<instance_id>/install",
    op="install",
    can="instances.view",
    out=Schema.from_dict(INSTALLATION_FIELDS, name="Installation"),
)
def show_installation(instance_id):
    """Get the progress of the installation.

    Returns the latest deployment, reinstall or installation from an ISO. `task` is null if there was none.
    """
    task = instances.find_last_deploy(get_own_instance(instance_id))
    return {"task": task, "logs": task.logs if task else []}


@user.get(
    "/instance/<instance_id>/events",
    op="events",
    can="instances.view",
    query=kit.PageQuery,
    out=kit.build_page_schema(EventOut),
)
def list_events(instance_id):
    """List the events of an instance, newest first.

    Alerts are in the history of their rules.
    """
    instance_id = get_own_instance(instance_id).id
    return kit.paginate(events.listing(kit.get_current_access(), resource_id=instance_id, with_alert_events=False))
