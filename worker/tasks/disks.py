"""What the tasks of single disks do on the node. Each may run twice: what is attached or gone already is as good."""

from panel.core.db import session
from panel.core.errors import NotFound
from panel.models import Disk
from worker.engine.registry import task
from worker.tasks.instances import known
from worker.tasks.machine_spec import disk_of


def asked(row):
    return session.get(Disk, row.arguments["disk_id"], populate_existing=True)


def never_was(row, error):
    if disk := asked(row):
        session.delete(disk)


def stays_small(row, error):
    if disk := asked(row):
        disk.size = row.arguments["before"]
        if disk.is_primary:
            disk.instance.storage = disk.size


def there(work):
    disk = asked(work.task)
    if disk is None:
        raise NotFound("The disk was removed meanwhile.")
    return known(work), disk, disk_of(disk)


@task("disk_add", ended_badly=never_was)
def add(work):
    instance, row, disk = there(work)
    work.step("Creating the disk", 20)
    work.undo("delete_disk", disk.pool, disk.name)
    work.undo("detach_disk", instance.id, disk.pool, disk.name)
    work.node.create_disk(disk)
    work.step("Attaching the disk", 60)
    work.node.attach_disk(instance.id, disk)
    row.attached = True


@task("disk_resize", ended_badly=stays_small)
def resize(work):
    instance, _, disk = there(work)
    work.step("Growing the disk", 20)
    work.node.grow_disk(disk, instance.id)


@task("disk_attach")
def attach(work):
    instance, row, disk = there(work)
    work.step("Attaching the disk", 20)
    work.node.attach_disk(instance.id, disk)
    row.attached = True


@task("disk_detach")
def detach(work):
    instance, row, disk = there(work)
    work.step("Waiting for the guest to let the disk go", 20)
    work.node.detach_disk(instance.id, disk.pool, disk.name)
    row.attached = False


@task("disk_delete")
def delete(work):
    """A guest that does not let it go keeps it. From the deletion on there is no way back."""
    if asked(work.task) is None:
        return
    instance, row, disk = there(work)
    work.step("Waiting for the guest to let the disk go", 20)
    if row.attached:
        work.node.detach_disk(instance.id, disk.pool, disk.name)
    row.attached = False
    work.step("Deleting the disk", 60)
    work.node.delete_disk(disk.pool, disk.name)
    session.delete(row)
