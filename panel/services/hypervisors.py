"""Hypervisors, their groups and storages."""

from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, exists, func, or_, select
from sqlalchemy.orm import selectinload, undefer, undefer_group

from panel.core import clock, jobs
from panel.core.db import on_commit, refresh_with_lock, session
from panel.core.errors import Conflict, Invalid
from panel.core.messages import message
from panel.models import (
    BackupFileSession,
    BackupPolicy,
    BackupRestoreTest,
    Disk,
    Hypervisor,
    HypervisorGroup,
    Instance,
    Microvm,
    MicrovmImageBuild,
    MicrovmPoolMember,
    Migration,
    PlanGroup,
    Storage,
    Subnet,
    Volume,
    VolumeSnapshot,
)
from panel.schemas.hypervisors import uri_error
from panel.services import hypervisor_outages
from panel.services.crud import ensure_unique_name, get_all_or_422, get_or_404, update_fields
from panel.services.search_kinds import contains_text, platform_search

if TYPE_CHECKING:
    from worker.nodes.base import Capabilities, Pool

BYTES_PER_GIB = 1024**3
STORES_DATA = or_(
    *(
        exists().where(column == Storage.id)
        for column in (Disk.storage_id, Volume.storage_id, VolumeSnapshot.storage_id)
    ),
    *(
        exists().where(model.storage_id == Storage.id, model.ended_at.is_(None))
        for model in (Microvm, MicrovmImageBuild)
    ),
    exists().where(MicrovmPoolMember.storage_id == Storage.id),
    exists().where(BackupFileSession.storage_id == Storage.id),
    exists().where(BackupRestoreTest.storage_id == Storage.id, BackupRestoreTest.status == "running"),
)
"""The condition that disks, volumes, volume snapshots, micro VMs, builds of their images, pool members or copies of
backups are in it."""

MICROVMS_MESSAGE = message("Micro VMs are on this hypervisor. Destroy them first.")
POOL_MEMBERS_MESSAGE = message(
    "Members of a warm pool are on this hypervisor. Delete its pools and try again after a minute."
)

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
    """Raise unless it is a policy of the platform."""
    is_platform = BackupPolicy.account_id.is_(None) & BackupPolicy.group_id.is_(None)
    query = select(BackupPolicy.id).where(BackupPolicy.id == policy_id, is_platform)
    if policy_id and session.scalar(query) is None:
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
        if changes["group"] is not hypervisor.group and has_microvms(hypervisor):
            raise Conflict(MICROVMS_MESSAGE)
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


def has_microvms(hypervisor: Hypervisor) -> bool:
    """Return whether live micro VMs, or machines that build their images, are on the hypervisor."""
    return any(
        session.scalar(select(model.id).where(model.hypervisor_id == hypervisor.id, model.ended_at.is_(None)).limit(1))
        for model in (Microvm, MicrovmImageBuild)
    )


def has_pool_members(hypervisor: Hypervisor) -> bool:
    query = select(MicrovmPoolMember.id).where(MicrovmPoolMember.hypervisor_id == hypervisor.id)
    return session.scalar(query.limit(1)) is not None


def has_volumes(hypervisor: Hypervisor) -> bool:
    """Return whether volumes or snapshots of volumes are here. Only meaningful when no instance with disks is left."""
    query = select(Storage.id).where(Storage.hypervisor_id == hypervisor.id, STORES_DATA)
    return session.scalar(query.limit(1)) is not None


def delete(hypervisor: Hypervisor) -> None:
    refresh_with_lock(hypervisor)  # wait for a create that is choosing this host
    if is_occupied(hypervisor):
        raise Conflict(message("Instances run on this hypervisor. Destroy or move them first."))
    if has_microvms(hypervisor):
        raise Conflict(MICROVMS_MESSAGE)
    if has_pool_members(hypervisor):
        raise Conflict(POOL_MEMBERS_MESSAGE)
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


def select_storages(hypervisor: Hypervisor | None = None) -> Select[Storage]:
    """Select the storages of a hypervisor or of all, each with what is allocated of it."""
    options = selectinload(Storage.hypervisor), undefer(Storage.allocated)
    query = select(Storage).options(*options).order_by(Storage.hypervisor_id, Storage.name)
    return query.where(Storage.hypervisor_id == hypervisor.id) if hypervisor else query


def get_storage(storage_id: str) -> Storage:
    return get_or_404(Storage, storage_id, message("No such storage."))


def describe_storage(storage: Storage) -> dict[str, Any]:
    """Return how full a storage is, as its hypervisor last reported, and how much of it is allocated."""
    used, allocatable = storage.capacity - storage.free, storage.capacity * storage.overcommit / BYTES_PER_GIB
    return {
        "status": get_condition(storage.hypervisor),
        "seen_at": storage.hypervisor.seen_at,
        "capacity": storage.capacity,
        "free": storage.free,
        "used": used,
        "used_percent": round(100 * used / storage.capacity, 2) if storage.capacity else 0.0,
        "allocatable": int(allocatable),
        "allocated": storage.allocated,
        "allocated_percent": round(100 * storage.allocated / allocatable, 2) if allocatable else 0.0,
    }


def create_storage(hypervisor: Hypervisor, *, name: str, path: str, **values: Any) -> Storage:
    ensure_unique_name(Storage, name, hypervisor_id=hypervisor.id)
    if path in [other.path for other in hypervisor.storages]:
        raise Invalid(
            message("The hypervisor has a storage in this folder."), path=message("Another storage uses this path.")
        )
    storage = Storage(hypervisor=hypervisor, name=name, path=path, **values)
    session.add(storage)
    session.flush()
    probe(hypervisor)
    return storage


def update_storage(storage: Storage, **changes: Any) -> Storage:
    return update_fields(storage, changes)


def delete_storage(storage: Storage) -> None:
    refresh_with_lock(storage.hypervisor)
    is_migration_target = exists().where(Migration.storage_id == Storage.id, Migration.status == "active")
    if session.scalar(select(Storage.id).where(Storage.id == storage.id, STORES_DATA | is_migration_target)):
        raise Conflict(message("Disks are in this storage. Destroy or move those instances first."))
    session.delete(storage)
    session.flush()


def with_allocation(query: Select[Hypervisor]) -> Select[Hypervisor]:
    """Load with each hypervisor what is allocated to its instances."""
    return query.options(undefer(Hypervisor.instances_count), undefer_group("allocation"))


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
    if hypervisor.status != "up":
        hypervisor_outages.end(hypervisor)
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
    if hypervisor.status != "down":
        hypervisor_outages.begin(hypervisor, error)
    hypervisor.status, hypervisor.status_detail = "down", error


@platform_search("hypervisor", permission="admin:hypervisors:read", position=30)
def select_by_any_name(text: str) -> Select[str, str, str]:
    condition = or_(contains_text(Hypervisor.name, text), Hypervisor.id == text.lower())
    return select(Hypervisor.id, Hypervisor.name, Hypervisor.status).where(condition).order_by(Hypervisor.name)


@platform_search("location", permission="admin:hypervisors:read", position=32)
def select_locations_by_name(text: str) -> Select[str, str, str]:
    names = contains_text(HypervisorGroup.display_name, text) | contains_text(HypervisorGroup.name, text)
    query = select(HypervisorGroup.id, HypervisorGroup.display_name, HypervisorGroup.name)
    return query.where(names | (HypervisorGroup.id == text.lower())).order_by(HypervisorGroup.display_name)
