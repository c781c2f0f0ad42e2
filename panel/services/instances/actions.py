"""Handing work on an instance to the workers."""

import secrets

from sqlalchemy import select

from panel import jobs
from panel.db import session
from panel.errors import Invalid
from panel.models import Task
from panel.models.tasks import OPEN
from panel.services import catalog, ssh_keys, tasks, usage
from panel.services.instances.rules import allow

ALREADY = {"start": "on", "stop": "off", "shutdown": "off", "poweroff": "off"}
"""The power that makes the action unnecessary."""


def act(instance, action, *, actor, by_operator=False):
    """Starts, stops, shuts down, restarts or powers off. Returns the task, or None when it is so already."""
    allow(instance, action, by_operator=by_operator)
    if instance.power == ALREADY.get(action) and not open_task(instance, "instance_%"):
        return None
    same = open_task(instance, f"instance_{action}")
    return same or enqueue(instance, action, "light", actor=actor)


def deploy(
    instance,
    *,
    image_id,
    actor,
    account=None,
    hostname=None,
    key_ids=(),
    password=None,
    cloudcfg=None,
    timezone=None,
    key_field="ssh_keys",
):
    """Makes the machine from an image. Without keys and password one is made up. Returns the task and that password.

    `account` limits which images and keys may be named; operators pass none.
    """
    allow(instance, "deploy", by_operator=account is None)
    image = catalog.image(image_id, account)
    if misfit(instance, image):
        raise Invalid("The image does not fit the instance.", image_id=misfit(instance, image))
    keys = ssh_keys.chosen(key_ids, account, key_field)
    made = None if keys or password else secrets.token_urlsafe(12)
    instance.image, instance.timezone, instance.last_error = image, timezone, None
    instance.hostname = hostname or instance.hostname
    arguments = {
        "image_id": image.id,
        "hostname": instance.hostname,
        "ssh_keys": [key.public_key for key in keys],
        "timezone": timezone,
        "cloudcfg": cloudcfg,
    }
    task = enqueue(instance, "deploy", "exclusive", actor=actor, arguments=arguments, secret=password or made)
    return task, made


def misfit(instance, image):
    """Why the image cannot be installed on a machine of this size, or None."""
    if image.min_disk > instance.storage:
        return f"The image needs {image.min_disk} GiB of disk."
    return f"The image needs {image.min_ram} MiB of memory." if image.min_ram > instance.ram else None


def destroy(instance, *, actor, by_operator=False, delete_backups=False):
    """Removes the machine and everything it had. Work that is making it is cancelled first. It costs nothing any more.

    `delete_backups` is noted on the task: backups that are not protected go with the machine."""
    allow(instance, "destroy", by_operator=by_operator)
    same = open_task(instance, "instance_destroy")
    if same:
        return same
    for task in session.scalars(select(Task).where(Task.resource_id == instance.id, Task.status.in_(OPEN))):
        if task.cancellable:
            tasks.cancel(task)
    usage.end(instance)
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
    session.expire(instance, ["rebuilding"])
    return task


def last_deploy(instance):
    """The latest task that installed, or tried to install, an operating system; or None."""
    deploys = select(Task).where(Task.resource_id == instance.id, Task.kind == "instance_deploy")
    return session.scalar(deploys.order_by(Task.id.desc()).limit(1))


def open_task(instance, kind):
    return session.scalar(
        select(Task).where(Task.resource_id == instance.id, Task.status.in_(OPEN), Task.kind.like(kind)).limit(1)
    )
