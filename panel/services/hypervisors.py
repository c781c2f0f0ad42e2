"""Hosts of machines, their groups and storages."""

from datetime import timedelta
from types import SimpleNamespace

from sqlalchemy import func, or_, select, union_all
from sqlalchemy.orm import selectinload

from panel.core import clock, jobs
from panel.core.db import on_commit, session
from panel.core.errors import Conflict, Invalid
from panel.models import Disk, Hypervisor, HypervisorGroup, Instance, Migration, Storage, Subnet, Volume, VolumeSnapshot
from panel.schemas.hypervisors import uri_error
from panel.services.crud import ensure_unique_name, get_all_or_422, get_or_404, update_fields

BYTES_PER_GIB = 1024**3
ALLOCATED_STORAGE = union_all(
    select(Disk.storage_id, Disk.size),
    select(Volume.storage_id, func.coalesce(Volume.growing_to, Volume.size)),
    select(VolumeSnapshot.storage_id, VolumeSnapshot.size),
).subquery("held")
"""Everything that takes room in storages: where, and how many GiB."""

HYPERVISOR_STALE_AFTER = timedelta(minutes=1)
"""Workers look at a host every few seconds. One that nobody looked at for so long is not known to be up."""


def select_groups(search=None):
    query = select(HypervisorGroup).options(
        selectinload(HypervisorGroup.hypervisors), selectinload(HypervisorGroup.plan_groups)
    )
    if search:
        names = HypervisorGroup.name.icontains(search, autoescape=True)
        query = query.where(names | HypervisorGroup.display_name.icontains(search, autoescape=True))
    return query.order_by(HypervisorGroup.display_name, HypervisorGroup.id)


def select_group_names():
    """Id and name of each, for a choice."""
    return select(HypervisorGroup.id, HypervisorGroup.display_name).order_by(HypervisorGroup.display_name)


def get_group(group_id, field=None):
    return get_or_404(HypervisorGroup, group_id, "No such hypervisor group.", field)


def get_groups(ids, field="hypervisor_groups"):
    """The groups with these ids, as a body lists them."""
    return get_all_or_422(HypervisorGroup, ids, "No such hypervisor group.", field)


def create_group(*, name, display_name=None, plan_groups=(), **values):
    ensure_unique_name(HypervisorGroup, name)
    ensure_backup_policy(values.get("default_backup_policy_id"))
    made = HypervisorGroup(name=name, display_name=display_name or name, plan_groups=list(plan_groups), **values)
    session.add(made)
    session.flush()
    return made


def update_group(group, **changes):
    if "name" in changes:
        ensure_unique_name(HypervisorGroup, changes["name"], exclude=group)
    ensure_backup_policy(changes.get("default_backup_policy_id"))
    return update_fields(group, changes)


def ensure_backup_policy(policy_id):
    """There are no backup policies yet, so no id names one."""
    if policy_id:
        raise Invalid("No such backup policy.", default_backup_policy_id="No such backup policy.")


def delete_group(group):
    if group.hypervisors:
        raise Conflict("Hypervisors belong to this group. Move or remove them first.")
    if session.scalar(select(Subnet.id).where(Subnet.group_id == group.id).limit(1)):
        raise Conflict("Subnets belong to this group. Remove them first.")
    session.delete(group)
    session.flush()


def listing(search=None, *, status=None, group_id=None):
    query = select(Hypervisor).options(selectinload(Hypervisor.group)).order_by(Hypervisor.name, Hypervisor.id)
    if search:
        query = query.where(Hypervisor.name.icontains(search, autoescape=True))
    if status:
        query = query.where(Hypervisor.status == status)
    return query.where(Hypervisor.group_id == group_id) if group_id else query


def select_names():
    """Id and name of each, for a choice."""
    return select(Hypervisor.id, Hypervisor.name).order_by(Hypervisor.name)


def get_condition(hypervisor):
    """`up`, `stale`, `unknown` or `down`."""
    old = hypervisor.seen_at is None or hypervisor.seen_at < clock.now() - HYPERVISOR_STALE_AFTER
    return "stale" if hypervisor.status == "up" and old else hypervisor.status


def with_problems():
    """Hosts that do not answer, or that nobody has looked at of late; those that are down come first."""
    quiet = or_(
        Hypervisor.status != "up",
        Hypervisor.seen_at.is_(None),
        Hypervisor.seen_at < clock.now() - HYPERVISOR_STALE_AFTER,
    )
    return listing().where(quiet).order_by(None).order_by(Hypervisor.status, Hypervisor.name)


def with_unmanaged_machines():
    """Hosts with machines that no instance knows."""
    return listing().where(func.json_array_length(Hypervisor.strangers) > 0)


def get(hypervisor_id, field=None):
    return get_or_404(Hypervisor, hypervisor_id, "No such hypervisor.", field)


def get_by_id_or_name(name, field):
    """The hypervisor with this id or name, as a body has it."""
    found = session.scalar(select(Hypervisor).where(or_(Hypervisor.id == name, Hypervisor.name == name)).limit(1))
    if found is None:
        raise Invalid("No such hypervisor.", **{field: "No such hypervisor."})
    return found


def create(group, *, name, driver, uri, storage_path, **values):
    """Adds a host with one storage. A worker looks at it at once: until then its status is `unknown`."""
    ensure_unique_name(Hypervisor, name)
    ensure_usable_address(driver, uri)
    hypervisor = Hypervisor(group=group, name=name, driver=driver, uri=uri, **values)
    hypervisor.storages = [Storage(name="default", path=storage_path)]
    session.add(hypervisor)
    session.flush()
    probe(hypervisor)
    return hypervisor


def ensure_usable_address(driver, uri, exclude=None):
    """Raises when the address cannot be used, or is another hypervisor's: the same host twice would be filled twice."""
    fault = uri_error(driver, uri)
    if fault:
        raise Invalid("The address cannot be used.", uri=fault)
    same = session.scalar(select(Hypervisor).where(Hypervisor.uri == uri, Hypervisor.driver == "libvirt").limit(1))
    if same and same is not exclude:
        raise Invalid("There is a hypervisor with this address.", uri=f"This is the address of {same.name}.")


def update(hypervisor, **changes):
    """Changes what was sent. A new address has to prove itself: the status is `unknown` until a worker looked."""
    if "name" in changes:
        ensure_unique_name(Hypervisor, changes["name"], exclude=hypervisor)
    if "hypervisor_group_id" in changes:
        changes["group"] = get_group(changes.pop("hypervisor_group_id"), "hypervisor_group_id")
        if changes["group"] is not hypervisor.group and is_occupied(hypervisor):
            raise Conflict(
                "Instances of its group run on this hypervisor. Move or destroy them before it changes group."
            )
    moved = "uri" in changes and changes["uri"] != hypervisor.uri
    if moved:
        ensure_usable_address(hypervisor.driver, changes["uri"], exclude=hypervisor)
        changes |= {"status": "unknown", "status_detail": None}
    update_fields(hypervisor, changes)
    if moved:
        probe(hypervisor)
    return hypervisor


def is_occupied(hypervisor):
    return session.scalar(select(Instance.id).where(Instance.hypervisor_id == hypervisor.id).limit(1)) is not None


def has_volumes(hypervisor):
    """Volumes and their snapshots, once there is no instance with disks any more."""
    lying = select(ALLOCATED_STORAGE.c.storage_id).join(Storage, Storage.id == ALLOCATED_STORAGE.c.storage_id)
    return session.scalar(lying.where(Storage.hypervisor_id == hypervisor.id).limit(1)) is not None


def delete(hypervisor):
    session.refresh(hypervisor, with_for_update=True)  # a create that is choosing this host goes first
    if is_occupied(hypervisor):
        raise Conflict("Instances run on this hypervisor. Destroy or move them first.")
    if has_volumes(hypervisor):
        raise Conflict("Volumes lie on this hypervisor. Delete them first.")
    for found in hypervisor.storages:
        session.delete(found)
    session.delete(hypervisor)
    session.flush()


def probe(hypervisor):
    """Asks a worker to look at the host: reachable, capabilities, capacity."""
    on_commit(lambda: jobs.enqueue_call("worker.sync.node_sync.probe", hypervisor.id))


def test(hypervisor):
    """The same, asked for by a person. A host that was down is `unknown` until the answer is there; one that is up
    stays open for new machines meanwhile."""
    if hypervisor.status == "down":
        hypervisor.status, hypervisor.status_detail = "unknown", None
    probe(hypervisor)


def select_storages():
    return select(Storage).options(selectinload(Storage.hypervisor)).order_by(Storage.hypervisor_id, Storage.name)


def get_storage(storage_id):
    return get_or_404(Storage, storage_id, "No such storage.")


def create_storage(hypervisor, *, name, path, **values):
    ensure_unique_name(Storage, name, hypervisor_id=hypervisor.id)
    if path in [other.path for other in hypervisor.storages]:
        raise Invalid("The hypervisor has a storage in this folder.", path="Another storage of it is there.")
    made = Storage(hypervisor=hypervisor, name=name, path=path, **values)
    session.add(made)
    session.flush()
    probe(hypervisor)
    return made


def update_storage(storage, **changes):
    return update_fields(storage, changes)


def delete_storage(storage):
    session.refresh(storage.hypervisor, with_for_update=True)
    if get_storage_allocations([storage.id]):
        raise Conflict("Disks are in this storage. Destroy or move those instances first.")
    session.delete(storage)
    session.flush()


def get_allocations(hypervisor_ids):
    """What instances have been promised, by hypervisor id: machines, cores, MiB of memory, GiB of disk. Those that are
    on their way to it have been promised cores and memory, too."""
    machines = (
        select(Instance.hypervisor_id, func.count(), func.sum(Instance.cpu_cores), func.sum(Instance.ram))
        .where(Instance.hypervisor_id.in_(hypervisor_ids))
        .group_by(Instance.hypervisor_id)
    )
    disks = select(Storage.hypervisor_id, func.sum(ALLOCATED_STORAGE.c.size)).join(
        ALLOCATED_STORAGE, ALLOCATED_STORAGE.c.storage_id == Storage.id
    )
    disks = disks.where(Storage.hypervisor_id.in_(hypervisor_ids)).group_by(Storage.hypervisor_id)
    arriving = (
        select(Migration.target_id, func.sum(Instance.cpu_cores), func.sum(Instance.ram))
        .join(Instance, Instance.id == Migration.instance_id)
        .where(Migration.target_id.in_(hypervisor_ids), Migration.status == "active")
        .group_by(Migration.target_id)
    )
    used = {i: {"instances": 0, "cpu_cores": 0, "ram": 0, "storage": 0} for i in hypervisor_ids}
    for i, count, cores, ram in session.execute(machines):
        used[i].update(instances=count, cpu_cores=cores, ram=ram)
    for i, size in session.execute(disks):
        used[i]["storage"] = size
    for i, cores, ram in session.execute(arriving):
        used[i]["cpu_cores"] += cores
        used[i]["ram"] += ram
    return used


def with_allocation(hypervisors):
    """Notes on each row as `get_storage_allocations` what its instances have been promised."""
    used = get_allocations([hypervisor.id for hypervisor in hypervisors])
    for hypervisor in hypervisors:
        hypervisor.promised = SimpleNamespace(**used[hypervisor.id])
    return hypervisors


def with_storage_allocation(storages):
    """Notes on each storage as `get_storage_allocations` the GiB of the disks that are there."""
    sums = get_storage_allocations([storage.id for storage in storages])
    for found in storages:
        found.promised = sums.get(found.id, 0)
    return storages


def get_storage_allocations(storage_ids):
    """GiB of disks and volumes by storage id, those that are on their way to it included."""
    sums = select(ALLOCATED_STORAGE.c.storage_id, func.sum(ALLOCATED_STORAGE.c.size)).where(
        ALLOCATED_STORAGE.c.storage_id.in_(storage_ids)
    )
    found = dict(session.execute(sums.group_by(ALLOCATED_STORAGE.c.storage_id)).all())
    arriving = select(Migration.storage_id, func.sum(Disk.size)).join(Disk, Disk.instance_id == Migration.instance_id)
    arriving = arriving.where(Migration.storage_id.in_(storage_ids), Migration.status == "active")
    for i, size in session.execute(arriving.group_by(Migration.storage_id)):
        found[i] = found.get(i, 0) + size
    return found


REPORTED_CAPABILITIES = (
    "version",
    "cpu_cores",
    "accelerated",
    "acceleration_note",
    "bandwidth_limits",
    "address_filters",
    "screen_tickets",
    "tpm",
    "secure_boot",
)
"""What a node says of itself and the row keeps."""


def mark_up(hypervisor, capabilities=None, pools=()):
    """Notes that the host answered, and what it said."""
    hypervisor.status, hypervisor.status_detail, hypervisor.seen_at = "up", None, clock.now()
    if capabilities:
        for field in REPORTED_CAPABILITIES:
            setattr(hypervisor, field, getattr(capabilities, field))
        hypervisor.memory_mb = capabilities.memory // 1024**2
    for pool in pools:
        for found in hypervisor.storages:
            if found.name == pool.name:
                found.capacity, found.free = pool.capacity, pool.free


def mark_down(hypervisor, error):
    """Notes that the host does not answer. What is known of its machines stays as it was."""
    hypervisor.status, hypervisor.status_detail = "down", error
