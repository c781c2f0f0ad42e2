"""Enqueuing work on instances."""

from typing import Any

from sqlalchemy import select

from panel.core import jobs
from panel.core.db import session
from panel.core.task_kinds import task_kind
from panel.models import Account, Instance, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import tasks, usage
from panel.services.access import Access
from panel.services.instances import first_boot
from panel.services.instances.action_catalog import ACTIONS
from panel.services.state_machine import ensure_allowed

task_kind("instance_deploy", "Deploy")
task_kind("instance_reinstall", "Reinstall")
task_kind("instance_start", "Start")
task_kind("instance_stop", "Stop")
task_kind("instance_shutdown", "Shutdown")
task_kind("instance_poweroff", "Power off")
task_kind("instance_restart", "Restart")
task_kind("instance_destroy", "Destroy")

INSTALL_TASK_KINDS = ("instance_deploy", "instance_reinstall")


def run_power_action(instance: Instance, action: str, *, actor: str, by_operator: bool = False) -> Task | None:
    """Start, stop, shut down, restart or power off. Return the task, or None when the power is already as requested."""
    ensure_allowed(instance, action, by_operator=by_operator)
    if ACTIONS[action].is_noop(instance) and not find_open_task(instance, "instance_%"):
        return None
    existing = find_open_task(instance, f"instance_{action}")
    return existing or enqueue(instance, action, "light", actor=actor)


def deploy(
    instance: Instance, *, image_id: str, actor: str, account: Access | Account | None = None, **options: Any
) -> tuple[Task, str | None]:
    """Install the instance from an image. A password is generated when neither keys nor a password are given. Return
    the task and the generated password or None.

    `account` limits which images, keys and scripts may be used; operators pass none.
    """
    ensure_allowed(instance, "deploy", by_operator=account is None)
    image, arguments, secret, generated_password = first_boot.prepare_first_boot(
        instance, image_id, account=account, **options
    )
    instance.image, instance.timezone, instance.last_error = image, arguments["timezone"], None
    instance.hostname = arguments["hostname"]
    return enqueue(instance, "deploy", "exclusive", actor=actor, arguments=arguments, secret=secret), generated_password


def destroy(instance: Instance, *, actor: str, by_operator: bool = False, delete_backups: bool = False) -> Task:
    """Destroy the machine and all its resources. Open tasks that can be cancelled are cancelled first, and metering
    stops.

    `delete_backups` is passed to the task: unprotected backups are deleted with the machine.
    """
    ensure_allowed(instance, "destroy", by_operator=by_operator)
    existing = find_open_task(instance, "instance_destroy")
    if existing:
        return existing
    for task in session.scalars(select(Task).where(Task.resource_id == instance.id, Task.status.in_(OPEN_STATUSES))):
        if task.cancellable:
            tasks.cancel(task)
    usage.stop_metering(instance)
    return enqueue(instance, "destroy", "final", actor=actor, arguments={"delete_backups": delete_backups})


def enqueue(instance: Instance, action: str, lock: str, *, actor: str, **options: Any) -> Task:
    task = jobs.enqueue(
        f"instance_{action}",
        "instance",
        instance,
        lock=lock,
        actor=actor,
        hypervisor_id=instance.hypervisor_id,
        **options,
    )
    session.expire(instance, ["rebuilding", "task_running"])
    return task


def find_last_deploy(instance: Instance) -> Task | None:
    """Return the latest task that installed, or tried to install, an operating system; or None."""
    query = select(Task).where(Task.resource_id == instance.id, Task.kind.in_(INSTALL_TASK_KINDS))
    return session.scalar(query.order_by(Task.id.desc()).limit(1))


def find_open_task(instance: Instance, kind: str) -> Task | None:
    return session.scalar(
        select(Task)
        .where(Task.resource_id == instance.id, Task.status.in_(OPEN_STATUSES), Task.kind.like(kind))
        .limit(1)
    )
