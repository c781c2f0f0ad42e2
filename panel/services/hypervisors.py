"""Hypervisors, their groups and storages."""

from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, func, or_, select, union_all
from sqlalchemy.orm import selectinload

from panel.core import clock, jobs
from panel.core.db import on_commit, session
from panel.core.errors import Conflict, Invalid
from panel.core.messages import message
from panel.models import (
    Disk,
    Hypervisor,
    HypervisorGroup,
    Instance,
    Migration,
    PlanGroup,
    Storage,
    Subnet,
    Volume,
    VolumeSnapshot,
)
from panel.schemas.hypervisors import uri_error
from panel.services.crud import ensure_unique_name, get_all_or_422, get_or_404, update_fields
from panel.services.search_kinds import contains_text, platform_search

if TYPE_CHECKING:
    from worker.nodes.base import Capabilities, Pool

BYTES_PER_GIB = 1024**3
ALLOCATED_STORAGE = union_all(
    select(Disk.storage_id, Disk.size),
    select(Volume.storage_id, func.coalesce(Volume.growing_to, Volume.size)),
    select(VolumeSnapshot.storage_id, VolumeSnapshot.size),
).subquery("held")
"""Everything that takes space in a storage: storage id and GiB."""

HYPERVISOR_STALE_AFTER = timedelta(minutes=1)
"""Workers poll a hypervisor every few seconds. After this time without an answer its condition is `stale`."""


def select_groups(search: str | None = None) -> Select[HypervisorGroup]:
    query = select(HypervisorGroup).options(
        selectinload(HypervisorGroup.hypervisors), selectinload(HypervisorGroup.plan_groups)
    )
    if search:
        names = HypervisorGroup.name.icontains(search, autoescape=True)
        query = query.where(names | HypervisorGroup.display_name.icontains(search, autoescape=True))
    return query.order_by(HypervisorGroup.display_name, HypervisorGroup.id)


def select_group_names() -> Select[str, str]:
    """Select the id and name of each group, for a choice field."""
    return select(HypervisorGroup.id, HypervisorGroup.display_name).order_by(HypervisorGroup.display_name)


def get_group(group_id: str, error_field: str | None = None) -> HypervisorGroup:
    return get_or_404(HypervisorGroup, group_id, message("No such hypervisor group."), error_field)


def get_groups(ids: Collection[str], error_field: str = "hypervisor_groups") -> list[HypervisorGroup]:
    """Return the groups with these ids, which come from the body's `field`."""
    return get_all_or_422(HypervisorGroup, ids, message("No such hypervisor group."), error_field)


def create_group(
    *, name: str, display_name: str | None = None, plan_groups: Iterable[PlanGroup] = (), **values: Any
) -> HypervisorGroup:
    ensure_unique_name(HypervisorGroup, name)
    ensure_backup_policy(values.get("default_backup_policy_id"))
    group = HypervisorGroup(name=name, display_name=display_name or name, plan_groups=list(plan_groups), **values)
    session.add(group)
    session.flush()
    return group


def update_group(group: HypervisorGroup, **changes: Any) -> HypervisorGroup:
    if "name" in changes:
        ensure_unique_name(HypervisorGroup, changes["name"], exclude=group)
    ensure_backup_policy(changes.get("default_backup_policy_id"))
    return update_fields(group, changes)


def ensure_backup_policy(policy_id: str | None) -> None:
    """Raise for any id: there are no backup policies yet."""
    if policy_id:
        raise Invalid(message("No such backup policy."), default_backup_policy_id=message("No such backup policy."))


def delete_group(group: HypervisorGroup) -> None:
    if group.hypervisors:
        raise Conflict(message("Hypervisors belong to this group. Move or remove them first."))
    if session.scalar(select(Subnet.id).where(Subnet.group_id == group.id).limit(1)):
        raise Conflict(message("Subnets belong to this group. Remove them first."))
    session.delete(group)
    session.flush()


def listing(search: str | None = None, *, status: str | None = None, group_id: str | None = None) -> Select[Hypervisor]:
    query = select(Hypervisor).options(selectinload(Hypervisor.group)).order_by(Hypervisor.name, Hypervisor.id)
    if search:
        query = query.where(Hypervisor.name.icontains(search, autoescape=True))
    if status:
        query = query.where(Hypervisor.status == status)
    return query.where(Hypervisor.group_id == group_id) if group_id else query


def select_names() -> Select[str, str]:
    """Select the id and name of each hypervisor, for a choice field."""
    return select(Hypervisor.id, Hypervisor.name).order_by(Hypervisor.name)


def get_condition(hypervisor: Hypervisor) -> str:
    """Return `up`, `stale`, `unknown` or `down`."""
    is_stale = hypervisor.seen_at is None or hypervisor.seen_at < clock.now() - HYPERVISOR_STALE_AFTER
    return "stale" if hypervisor.status == "up" and is_stale else hypervisor.status


def select_with_problems() -> Select[Hypervisor]:
    """Select hypervisors that are not up or have not answered lately; the down ones come first."""
    unreachable = or_(
        Hypervisor.status != "up",
        Hypervisor.seen_at.is_(None),
        Hypervisor.seen_at < clock.now() - HYPERVISOR_STALE_AFTER,
    )
    return listing().where(unreachable).order_by(None).order_by(Hypervisor.status, Hypervisor.name)


def select_with_unmanaged_machines() -> Select[Hypervisor]:
    """Select hypervisors with machines that belong to no instance."""
    return listing().where(func.json_array_length(Hypervisor.unmanaged_machines) > 0)


def get(hypervisor_id: str | None, error_field: str | None = None) -> Hypervisor:
    return get_or_404(Hypervisor, hypervisor_id, message("No such hypervisor."), error_field)


def get_by_id_or_name(name: str, error_field: str) -> Hypervisor:
    """Return the hypervisor with this id or name, which comes from the body's `field`."""
    hypervisor = session.scalar(select(Hypervisor).where(or_(Hypervisor.id == name, Hypervisor.name == name)).limit(1))
    if hypervisor is None:
        raise Invalid(message("No such hypervisor."), **{error_field: message("No such hypervisor.")})
    return hypervisor


def create(group: HypervisorGroup, *, name: str, driver: str, uri: str, storage_path: str, **values: Any) -> Hypervisor:
    """Add a hypervisor with one storage. Its status is `unknown` until a worker has probed it, which is requested
    here."""
    ensure_unique_name(Hypervisor, name)
    ensure_usable_address(driver, uri)
    hypervisor = Hypervisor(group=group, name=name, driver=driver, uri=uri, **values)
    hypervisor.storages = [Storage(name="default", path=storage_path)]
    session.add(hypervisor)
    session.flush()
    probe(hypervisor)
    return hypervisor


def ensure_usable_address(driver: str, uri: str, exclude: Hypervisor | None = None) -> None:
    """Raise when the address is invalid or belongs to another hypervisor: one host under two rows would be filled
    twice."""
    error = uri_error(driver, uri)
    if error:
        raise Invalid(message("The address cannot be used."), uri=error)
    other = session.scalar(select(Hypervisor).where(Hypervisor.uri == uri, Hypervisor.driver == "libvirt").limit(1))
    if other and other is not exclude:
        raise Invalid(
            message("There is a hypervisor with this address."),
            uri=message("This is the address of {other}.", other=other.name),
        )


def update(hypervisor: Hypervisor, **changes: Any) -> Hypervisor:
    """Change the given fields. After a change of the address the status is `unknown` until a worker has probed it."""
    if "name" in changes:
        ensure_unique_name(Hypervisor, changes["name"], exclude=hypervisor)
    if "hypervisor_group_id" in changes:
        changes["group"] = get_group(changes.pop("hypervisor_group_id"), "hypervisor_group_id")
        if changes["group"] is not hypervisor.group and is_occupied(hypervisor):
            raise Conflict(
                message("Instances of its group run on this hypervisor. Move or destroy them before it changes group.")
            )
    address_changed = "uri" in changes and changes["uri"] != hypervisor.uri
    if address_changed:
        ensure_usable_address(hypervisor.driver, changes["uri"], exclude=hypervisor)
        changes |= {"status": "unknown", "status_detail": None}
    update_fields(hypervisor, changes)
    if address_changed:
        probe(hypervisor)
    return hypervisor


def is_occupied(hypervisor: Hypervisor) -> bool:
    return session.scalar(select(Instance.id).where(Instance.hypervisor_id == hypervisor.id).limit(1)) is not None


def has_volumes(hypervisor: Hypervisor) -> bool:
    """Return whether volumes or snapshots of volumes are here. Only meaningful when no instance with disks is left."""
    query = select(ALLOCATED_STORAGE.c.storage_id).join(Storage, Storage.id == ALLOCATED_STORAGE.c.storage_id)
    return session.scalar(query.where(Storage.hypervisor_id == hypervisor.id).limit(1)) is not None


def delete(hypervisor: Hypervisor) -> None:
    session.refresh(hypervisor, with_for_update=True)  # wait for a create that is choosing this host
    if is_occupied(hypervisor):
        raise Conflict(message("Instances run on this hypervisor. Destroy or move them first."))
    if has_volumes(hypervisor):
        raise Conflict(message("Volumes are stored on this hypervisor. Delete them first."))
    for storage in hypervisor.storages:
        session.delete(storage)
    session.delete(hypervisor)
    session.flush()


def probe(hypervisor: Hypervisor) -> None:
    """Ask a worker to probe the hypervisor: reachability, capabilities, capacity."""
    on_commit(lambda: jobs.enqueue_call("worker.sync.node_sync.probe", hypervisor.id))


def test(hypervisor: Hypervisor) -> None:
    """Probe on a person's request. A hypervisor that was down becomes `unknown` until the answer arrives; one that is
    up stays available for new machines."""
    if hypervisor.status == "down":
        hypervisor.status, hypervisor.status_detail = "unknown", None
    probe(hypervisor)


def select_storages() -> Select[Storage]:
    return select(Storage).options(selectinload(Storage.hypervisor)).order_by(Storage.hypervisor_id, Storage.name)


def get_storage(storage_id: str) -> Storage:
    return get_or_404(Storage, storage_id, message("No such storage."))


def create_storage(hypervisor: Hypervisor, *, name: str, path: str, **values: Any) -> Storage:
    ensure_unique_name(Storage, name, hypervisor_id=hypervisor.id)
    if path in [other.path for other in hypervisor.storages]:
        raise Invalid(
            message("The hypervisor has a storage in this folder."), path=message("Another storage of it is there.")
        )
    storage = Storage(hypervisor=hypervisor, name=name, path=path, **values)
    session.add(storage)
    session.flush()
    probe(hypervisor)
    return storage


def update_storage(storage: Storage, **changes: Any) -> Storage:
    return update_fields(storage, changes)


def delete_storage(storage: Storage) -> None:
    session.refresh(storage.hypervisor, with_for_update=True)
    if get_storage_allocations([storage.id]):
        raise Conflict(message("Disks are in this storage. Destroy or move those instances first."))
    session.delete(storage)
    session.flush()


def get_allocations(hypervisor_ids: Collection[str]) -> dict[str, dict[str, int]]:
    """Return what is allocated to instances, by hypervisor id: `instances`, `cpu_cores`, `ram` in MiB, `storage` in
    GiB. Cores and memory include instances that are migrating to the hypervisor."""
    machines = (
        select(Instance.hypervisor_id, func.count(), func.sum(Instance.cpu_cores), func.sum(Instance.ram))
        .where(Instance.hypervisor_id.in_(hypervisor_ids))
        .group_by(Instance.hypervisor_id)
    )
    disks = select(Storage.hypervisor_id, func.sum(ALLOCATED_STORAGE.c.size)).join(
        ALLOCATED_STORAGE, ALLOCATED_STORAGE.c.storage_id == Storage.id
    )
    disks = disks.where(Storage.hypervisor_id.in_(hypervisor_ids)).group_by(Storage.hypervisor_id)
    incoming: Select = (  # each `target_id` is one of `hypervisor_ids`
        select(Migration.target_id, func.sum(Instance.cpu_cores), func.sum(Instance.ram))
        .join(Instance, Instance.id == Migration.instance_id)
        .where(Migration.target_id.in_(hypervisor_ids), Migration.status == "active")
        .group_by(Migration.target_id)
    )
    allocations = {i: {"instances": 0, "cpu_cores": 0, "ram": 0, "storage": 0} for i in hypervisor_ids}
    for i, count, cores, ram in session.execute(machines):
        allocations[i].update(instances=count, cpu_cores=cores, ram=ram)
    for i, size in session.execute(disks):
        allocations[i]["storage"] = size
    for i, cores, ram in session.execute(incoming):
        allocations[i]["cpu_cores"] += cores
        allocations[i]["ram"] += ram
    return allocations


def with_allocation(hypervisors: Sequence[Hypervisor]) -> Sequence[Hypervisor]:
    """Set `promised` on each row: what is allocated to its instances (see `get_allocations`)."""
    allocations = get_allocations([hypervisor.id for hypervisor in hypervisors])
    for hypervisor in hypervisors:
        hypervisor.promised = SimpleNamespace(**allocations[hypervisor.id])
    return hypervisors


def with_storage_allocation(storages: Sequence[Storage]) -> Sequence[Storage]:
    """Set `promised` on each storage: the allocated GiB (see `get_storage_allocations`)."""
    sums = get_storage_allocations([storage.id for storage in storages])
    for row in storages:
        row.promised = sums.get(row.id, 0)
    return storages


def get_storage_allocations(storage_ids: Collection[str]) -> dict[str, int]:
    """Return the GiB of disks, volumes and volume snapshots by storage id, including disks that are migrating to it."""
    sums = select(ALLOCATED_STORAGE.c.storage_id, func.sum(ALLOCATED_STORAGE.c.size)).where(
        ALLOCATED_STORAGE.c.storage_id.in_(storage_ids)
    )
    allocations = dict(session.execute(sums.group_by(ALLOCATED_STORAGE.c.storage_id)).all())
    incoming = select(Migration.storage_id, func.sum(Disk.size)).join(Disk, Disk.instance_id == Migration.instance_id)
    incoming = incoming.where(Migration.storage_id.in_(storage_ids), Migration.status == "active")
    for i, size in session.execute(incoming.group_by(Migration.storage_id)):
        allocations[i] = allocations.get(i, 0) + size
    return allocations


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
"""Capabilities that the node reports and the row stores."""


def mark_up(hypervisor: Hypervisor, capabilities: "Capabilities | None" = None, pools: Iterable["Pool"] = ()) -> None:
    """Record that the node answered, with its capabilities and the space in its pools."""
    hypervisor.status, hypervisor.status_detail, hypervisor.seen_at = "up", None, clock.now()
    if capabilities:
        for field in REPORTED_CAPABILITIES:
            setattr(hypervisor, field, getattr(capabilities, field))
        hypervisor.memory_mb = capabilities.memory // 1024**2
    for pool in pools:
        for storage in hypervisor.storages:
            if storage.name == pool.name:
                storage.capacity, storage.free = pool.capacity, pool.free


def mark_down(hypervisor: Hypervisor, error: str) -> None:
    """Record that the node does not answer. The state of its machines stays as it was."""
    hypervisor.status, hypervisor.status_detail = "down", error


@platform_search("hypervisor", permission="admin:hypervisors:read", position=30)
def select_by_any_name(text: str) -> Select[str, str, str]:
    condition = or_(contains_text(Hypervisor.name, text), Hypervisor.id == text.lower())
    return select(Hypervisor.id, Hypervisor.name, Hypervisor.status).where(condition).order_by(Hypervisor.name)
