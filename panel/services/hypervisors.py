"""Hosts of machines, their groups and storages."""

from sqlalchemy import func, select
from sqlalchemy.orm import selectinload

from panel import clock, jobs
from panel.db import on_commit, session
from panel.errors import Conflict, Invalid, NotFound
from panel.models import Disk, Hypervisor, HypervisorGroup, Instance, Storage

GiB = 1024**3


def groups():
    return select(HypervisorGroup).order_by(HypervisorGroup.display_name, HypervisorGroup.id)


def group(group_id):
    found = session.get(HypervisorGroup, group_id)
    if found is None:
        raise NotFound("No such hypervisor group.")
    return found


def create_group(*, name, display_name=None, plan_groups=(), **values):
    if session.scalar(select(HypervisorGroup.id).where(HypervisorGroup.name == name)):
        raise Invalid("There is a group of this name.", name="This name is taken.")
    made = HypervisorGroup(name=name, display_name=display_name or name, plan_groups=list(plan_groups), **values)
    session.add(made)
    session.flush()
    return made


def update_group(found, **changes):
    for field, value in changes.items():
        setattr(found, field, value)
    session.flush()
    return found


def delete_group(found):
    if found.hypervisors:
        raise Conflict("Hypervisors belong to this group. Move or remove them first.")
    session.delete(found)


def listing(search=None):
    query = select(Hypervisor).options(selectinload(Hypervisor.group)).order_by(Hypervisor.name, Hypervisor.id)
    return query.where(Hypervisor.name.icontains(search, autoescape=True)) if search else query


def get(hypervisor_id):
    hypervisor = session.get(Hypervisor, hypervisor_id)
    if hypervisor is None:
        raise NotFound("No such hypervisor.")
    return hypervisor


def create(found_group, *, name, driver, uri, storage_path, **values):
    """Adds a host with one storage. A worker looks at it at once: until then its status is `unknown`."""
    if session.scalar(select(Hypervisor.id).where(Hypervisor.name == name)):
        raise Invalid("There is a hypervisor of this name.", name="This name is taken.")
    hypervisor = Hypervisor(group=found_group, name=name, driver=driver, uri=uri, **values)
    hypervisor.storages = [Storage(name="default", path=storage_path)]
    session.add(hypervisor)
    session.flush()
    check(hypervisor)
    return hypervisor


def update(hypervisor, **changes):
    for field, value in changes.items():
        setattr(hypervisor, field, value)
    session.flush()
    if changes.keys() & {"uri", "driver", "network"}:
        check(hypervisor)
    return hypervisor


def delete(hypervisor):
    if session.scalar(select(Instance.id).where(Instance.hypervisor_id == hypervisor.id).limit(1)):
        raise Conflict("Instances run on this hypervisor. Destroy or move them first.")
    session.delete(hypervisor)


def check(hypervisor):
    """Asks a worker to look at the host: reachable, capabilities, capacity."""
    on_commit(lambda: jobs.call("worker.hypervisors.check", hypervisor.id))


def storages():
    return select(Storage).options(selectinload(Storage.hypervisor)).order_by(Storage.hypervisor_id, Storage.name)


def storage(storage_id):
    found = session.get(Storage, storage_id)
    if found is None:
        raise NotFound("No such storage.")
    return found


def create_storage(hypervisor, *, name, path, **values):
    if session.scalar(select(Storage.id).where(Storage.hypervisor_id == hypervisor.id, Storage.name == name)):
        raise Invalid("The hypervisor has a storage of this name.", name="This name is taken.")
    made = Storage(hypervisor=hypervisor, name=name, path=path, **values)
    session.add(made)
    session.flush()
    check(hypervisor)
    return made


def update_storage(found, **changes):
    for field, value in changes.items():
        setattr(found, field, value)
    session.flush()
    return found


def usage(hypervisor_ids):
    """What instances have been promised, by hypervisor id: machines, cores, MiB of memory, GiB of disk."""
    machines = (
        select(Instance.hypervisor_id, func.count(), func.sum(Instance.cpu_cores), func.sum(Instance.ram))
        .where(Instance.hypervisor_id.in_(hypervisor_ids))
        .group_by(Instance.hypervisor_id)
    )
    disks = (
        select(Storage.hypervisor_id, func.sum(Disk.size))
        .join(Disk, Disk.storage_id == Storage.id)
        .where(Storage.hypervisor_id.in_(hypervisor_ids))
        .group_by(Storage.hypervisor_id)
    )
    used = {i: {"instances": 0, "cpu_cores": 0, "ram": 0, "storage": 0} for i in hypervisor_ids}
    for i, count, cores, ram in session.execute(machines):
        used[i].update(instances=count, cpu_cores=cores, ram=ram)
    for i, size in session.execute(disks):
        used[i]["storage"] = size
    return used


def promised(storage_ids):
    """GiB of disks by storage id."""
    sums = select(Disk.storage_id, func.sum(Disk.size)).where(Disk.storage_id.in_(storage_ids))
    return dict(session.execute(sums.group_by(Disk.storage_id)).all())


def seen(hypervisor, capabilities=None, pools=()):
    """Notes that the host answered, and what it said."""
    hypervisor.status, hypervisor.status_detail, hypervisor.seen_at = "up", None, clock.now()
    for field in ("version", "cpu_cores", "accelerated", "acceleration_note", "bandwidth_limits", "address_filters"):
        if capabilities:
            setattr(hypervisor, field, getattr(capabilities, field))
    if capabilities:
        hypervisor.memory_mb = capabilities.memory // 1024**2
    for pool in pools:
        for found in hypervisor.storages:
            if found.name == pool.name:
                found.capacity, found.free = pool.capacity, pool.free


def unseen(hypervisor, error):
    """Notes that the host does not answer. What is known of its machines stays as it was."""
    hypervisor.status, hypervisor.status_detail = "down", error
