"""The two optical drives of an instance and the ISOs in them."""

from sqlalchemy import select

from panel.core import jobs
from panel.core.db import lock_row, session
from panel.core.errors import Invalid, NotFound, Unavailable
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Instance, Iso, Task
from panel.services.instances.self_deploy import NOT_HTTPS_MESSAGE
from panel.services.state_machine import TASK_RUNNING, make_problem

task_kind("iso_mount", "ISO insert")
task_kind("iso_unmount", "ISO eject")

DRIVE_COLUMNS = {"primary": "iso_id", "secondary": "secondary_iso_id"}
"""The column with the ISO of each drive."""

DRIVE_TASK_KINDS = ("iso_mount", "iso_unmount")
MAX_OVERLAPPING_CHANGES = 50
"""How many overlapping changes of a drive are considered when one fails."""


def mount(instance: Instance, slot: str, iso: Iso, *, actor: str, by_operator: bool = False) -> Task:
    """Put the ISO into the drive: now when the machine runs, else for its next start. A node without the file downloads
    it first. Return the task."""
    column = get_drive_column(slot)
    ensure_changeable(instance, by_operator)
    if not iso.url.startswith("https://"):
        raise Invalid(NOT_HTTPS_MESSAGE, reason="iso_url_not_https")
    return enqueue_change(instance, slot, column, iso, "iso_mount", actor)


def unmount(instance: Instance, slot: str, *, actor: str, by_operator: bool = False) -> Task | None:
    """Empty the drive. Return the task, or None when it is empty already."""
    column = get_drive_column(slot)
    ensure_changeable(instance, by_operator)
    if getattr(instance, column) is None:
        return None
    return enqueue_change(instance, slot, column, None, "iso_unmount", actor)


def get_drive_column(slot: str) -> str:
    if slot not in DRIVE_COLUMNS:
        raise NotFound(message("No such drive. Use primary or secondary."))
    return DRIVE_COLUMNS[slot]


def ensure_changeable(instance: Instance, by_operator: bool) -> None:
    if instance.state == "migrating" or instance.rebuilding:
        raise make_problem(TASK_RUNNING)
    if instance.suspended_reason and not by_operator:
        raise make_problem("suspended")
    if instance.hypervisor.status == "down":
        raise Unavailable(message("The hypervisor cannot be reached at the moment."), reason="hypervisor_unreachable")


def enqueue_change(instance: Instance, slot: str, column: str, iso: Iso | None, kind: str, actor: str) -> Task:
    before = getattr(instance, column)
    setattr(instance, column.removesuffix("_id"), iso)
    setattr(instance, column, iso and iso.id)
    session.flush()
    arguments = {"slot": slot, "iso_id": iso and iso.id, "before": before}
    return jobs.enqueue(
        kind,
        "instance",
        instance,
        lock="light",
        actor=actor,
        hypervisor_id=instance.hypervisor_id,
        arguments=arguments,
    )


def restore_drive(task: Task) -> None:
    """Undo a failed change of the drive, unless it was changed again meanwhile."""
    column = DRIVE_COLUMNS[task.arguments["slot"]]
    instance = lock_row(Instance, task.resource_id)
    if instance and getattr(instance, column) == task.arguments["iso_id"]:
        before = get_previous_iso_id(task)
        setattr(instance, column, before if before and session.get(Iso, before) else None)


def get_previous_iso_id(task: Task) -> str | None:
    """Return the ISO in the drive before this change. Overlapping earlier changes count only if they succeeded."""
    query = select(Task).where(Task.resource_id == task.resource_id, Task.kind.in_(DRIVE_TASK_KINDS), Task.id < task.id)
    for other in session.scalars(query.order_by(Task.id.desc()).limit(MAX_OVERLAPPING_CHANGES)):
        if other.arguments["slot"] != task.arguments["slot"]:
            continue
        if other.finished_at and other.finished_at <= task.created_at:
            break
        if other.arguments.get("came_true"):
            return other.arguments["iso_id"]
        task = other
    return task.arguments["before"]


def record_success(task: Task) -> None:
    """Record that the drive has what the task requested."""
    task.arguments = {**task.arguments, "came_true": True}
