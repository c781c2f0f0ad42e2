"""Tasks of single disks. Each may run twice: what is already attached or gone counts as done."""

from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.models import Disk
from worker.engine.registry import task_handler
from worker.tasks.instances import get_instance
from worker.tasks.machine_spec import build_disk


def find_disk(row):
    return session.get(Disk, row.arguments["disk_id"], populate_existing=True)


def on_add_failed(row, error):
    if disk := find_disk(row):
        session.delete(disk)


def on_resize_failed(row, error):
    if disk := find_disk(row):
        disk.size = row.arguments["before"]
        if disk.is_primary:
            disk.instance.storage = disk.size


def get_instance_disk(work):
    disk = find_disk(work.task)
    if disk is None:
        raise NotFound(message("The disk was deleted in the meantime."))
    return get_instance(work), disk, build_disk(disk)


@task_handler("disk_add", on_failure=on_add_failed)
def add(work):
    instance, row, disk = get_instance_disk(work)
    work.step(message("Creating the disk"), 20)
    work.undo("delete_disk", disk.pool, disk.name)
    work.undo("detach_disk", instance.id, disk.pool, disk.name)
    work.node.create_disk(disk)
    work.step(message("Attaching the disk"), 60)
    work.node.attach_disk(instance.id, disk)
    row.attached = True


@task_handler("disk_resize", on_failure=on_resize_failed)
def resize(work):
    instance, _, disk = get_instance_disk(work)
    work.step(message("Growing the disk"), 20)
    work.node.grow_disk(disk, instance.id)


@task_handler("disk_attach")
def attach(work):
    instance, row, disk = get_instance_disk(work)
    work.step(message("Attaching the disk"), 20)
    work.node.attach_disk(instance.id, disk)
    row.attached = True


@task_handler("disk_detach")
def detach(work):
    instance, row, disk = get_instance_disk(work)
    work.step(message("Waiting for the guest to release the disk"), 20)
    work.node.detach_disk(instance.id, disk.pool, disk.name)
    row.attached = False


@task_handler("disk_delete")
def delete(work):
    """Detach and delete the disk. A guest that does not release it keeps it. The deletion itself cannot be undone."""
    if find_disk(work.task) is None:
        return
    instance, row, disk = get_instance_disk(work)
    work.step(message("Waiting for the guest to release the disk"), 20)
    if row.attached:
        work.node.detach_disk(instance.id, disk.pool, disk.name)
    row.attached = False
    work.step(message("Deleting the disk"), 60)
    work.node.delete_disk(disk.pool, disk.name)
    session.delete(row)
