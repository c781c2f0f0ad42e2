"""Handing work on an instance to the workers."""

from sqlalchemy import select

from panel.core import jobs
from panel.core.db import session
from panel.models import Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import tasks, usage
from panel.services.instances import first_boot
from panel.services.state_machine import ensure_allowed

INSTALL_TASK_KINDS = ("instance_deploy", "instance_reinstall")

NOOP_POWER_STATE = {"start": "on", "stop": "off", "shutdown": "off", "poweroff": "off"}
"""The power that makes the action unnecessary."""


def run_power_action(instance, action, *, actor, by_operator=False):
    """Starts, stops, shuts down, restarts or powers off. Returns the task, or None when it is so already."""
    ensure_allowed(instance, action, by_operator=by_operator)
    if (
        instance.power == NOOP_POWER_STATE.get(action)
        and not instance.frozen
        and not find_open_task(instance, "instance_%")
    ):
        return None
    same = find_open_task(instance, f"instance_{action}")
    return same or enqueue(instance, action, "light", actor=actor)


def deploy(instance, *, image_id, actor, account=None, **chosen):
    """Makes the machine from an image. Without keys and password one is made up. Returns the task and that password.

    `account` limits which images, keys and scripts may be named; operators pass none.
    """
    ensure_allowed(instance, "deploy", by_operator=account is None)
    image, arguments, secret, made = first_boot.prepare_first_boot(instance, image_id, account=account, **chosen)
    instance.image, instance.timezone, instance.last_error = image, arguments["timezone"], None
    instance.hostname = arguments["hostname"]
    return enqueue(instance, "deploy", "exclusive", actor=actor, arguments=arguments, secret=secret), made


def destroy(instance, *, actor, by_operator=False, delete_backups=False):
    """Removes the machine and everything it had. Work that is making it is cancelled first. It costs nothing any more.

    `delete_backups` is noted on the task: backups that are not protected go with the machine."""
    ensure_allowed(instance, "destroy", by_operator=by_operator)
    same = find_open_task(instance, "instance_destroy")
    if same:
        return same
    for task in session.scalars(select(Task).where(Task.resource_id == instance.id, Task.status.in_(OPEN_STATUSES))):
        if task.cancellable:
            tasks.cancel(task)
    usage.stop_metering(instance)
    return enqueue(instance, "destroy", "final", actor=actor, arguments={"delete_backups": delete_backups})


def enqueue(instance, action, lock, *, actor, **more):
    task = jobs.enqueue(
        f"instance_{action}",
        "instance",
        instance,
        lock=lock,
        actor=actor,
        hypervisor_id=instance.hypervisor_id,
        **more,
    )
    session.expire(instance, ["rebuilding", "task_running"])
    return task


def find_last_deploy(instance):
    """The latest task that installed, or tried to install, an operating system; or None."""
    deploys = select(Task).where(Task.resource_id == instance.id, Task.kind.in_(INSTALL_TASK_KINDS))
    return session.scalar(deploys.order_by(Task.id.desc()).limit(1))


def find_open_task(instance, kind):
    return session.scalar(
        select(Task)
        .where(Task.resource_id == instance.id, Task.status.in_(OPEN_STATUSES), Task.kind.like(kind))
        .limit(1)
    )
