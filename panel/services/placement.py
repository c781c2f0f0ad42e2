"""Placement: the free capacity of hypervisors, and choosing one for a machine, or a storage for a disk.

What allocates capacity locks the hypervisors (`choose_host`, `lock_capacity`, `ensure_space`), so that concurrent
requests cannot allocate the same. What only shows capacity reads it without a lock.
"""

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass

from sqlalchemy import Select, select
from sqlalchemy.orm import selectinload

from panel.core.db import session, with_lock
from panel.core.errors import Invalid
from panel.core.messages import message
from panel.models import Hypervisor, HypervisorGroup, Plan, Storage
from panel.services import catalog, hypervisors

LOCATION_STORAGE_FULL_MESSAGE = message("The location does not have enough storage left.")
HOST_STORAGE_FULL_MESSAGE = message("Its hypervisor does not have enough storage left.")
VOLUME_STORAGE_FULL_MESSAGE = message("The volume's hypervisor does not have enough storage left.")


@dataclass(frozen=True)
class Requirements:
    """What a machine needs, where there is no plan that says it."""

    cpu_cores: int
    ram: int
    storage: int


class Capacity:
    """Free capacity of hypervisors: `ram` in MiB and `cores` by hypervisor, `disk` in GiB by storage."""

    def __init__(self, hosts: Sequence[Hypervisor]) -> None:
        columns = Hypervisor.id, Hypervisor.allocated_cpu_cores, Hypervisor.allocated_ram
        rows = session.execute(select(*columns).where(Hypervisor.id.in_([host.id for host in hosts])))
        allocations = {row.id: row for row in rows}
        storage_ids = [storage.id for host in hosts for storage in host.storages]
        query = select(Storage.id, Storage.allocated).where(Storage.id.in_(storage_ids))
        storage_allocations = dict(session.execute(query).all())
        self.hosts = hosts
        self.ram = {
            host: host.memory_mb * host.memory_overcommit - allocations[host.id].allocated_ram for host in hosts
        }
        self.cores = {
            host: host.cpu_cores * host.cpu_overcommit - allocations[host.id].allocated_cpu_cores for host in hosts
        }
        self.disk = {
            storage: storage.capacity / hypervisors.BYTES_PER_GIB * storage.overcommit - storage_allocations[storage.id]
            for host in hosts
            for storage in host.storages
        }

    def restrict_to_group(self, group_id: str) -> "Capacity":
        """Return the capacity of one location."""
        part = copy(self)
        part.hosts = [host for host in self.hosts if host.group_id == group_id]
        return part

    def has_cores_and_ram(self, host: Hypervisor, needs: Plan | Requirements) -> bool:
        return self.ram[host] >= needs.ram and self.cores[host] >= needs.cpu_cores

    def choose_host(self, needs: Plan | Requirements) -> tuple[Hypervisor, Storage]:
        """Return the hypervisor with the most free memory on which a machine of this size (a plan or `Requirements`)
        fits, and its storage. Raise when there is none."""
        if not self.hosts:
            raise Invalid(
                message("No instance can be placed in this location at the moment."), reason="hypervisor_not_available"
            )
        suitable = [host for host in self.hosts if self.has_cores_and_ram(host, needs)]
        if not suitable:
            raise Invalid(
                message("The location does not have enough memory or processors left."),
                reason="resources_not_sufficient",
            )
        for host in sorted(suitable, key=self.ram.__getitem__, reverse=True):
            for storage in host.storages:
                if storage.enabled and self.disk[storage] >= needs.storage:
                    return host, storage
        raise Invalid(LOCATION_STORAGE_FULL_MESSAGE, reason="storage_not_sufficient")

    def placement_error(self, needs: Plan | Requirements) -> str | None:
        """Return why no machine of this size can be placed, as a sentence, or None."""
        try:
            self.choose_host(needs)
        except Invalid as error:
            return error.message
        return None

    def count_machines(self, needs: Plan | Requirements, maximum: int) -> int:
        """Return how many machines of this size fit, at most `maximum`."""
        remaining = copy(self)
        remaining.ram, remaining.cores, remaining.disk = dict(self.ram), dict(self.cores), dict(self.disk)
        for count in range(maximum):
            try:
                host, storage = remaining.choose_host(needs)
            except Invalid:
                return count
            remaining.ram[host] -= needs.ram
            remaining.cores[host] -= needs.cpu_cores
            remaining.disk[storage] -= needs.storage
        return maximum

    def choose_storage(self, size: int, sentence: str, error_field: str) -> Storage:
        """Return the storage with the most free space, if that is enough for `size` GiB. Raise otherwise."""
        storages = [storage for storage in self.disk if storage.enabled]
        storage = max(storages, key=self.disk.__getitem__, default=None)
        if storage is None or self.disk[storage] < size:
            raise storage_full_error(sentence, error_field)
        return storage

    def ensure_space(self, storage: Storage, size: int, sentence: str, error_field: str | None = None) -> None:
        """Raise when the storage has fewer than `size` GiB free."""
        if self.disk[storage] < size:
            raise storage_full_error(sentence, error_field)


def storage_full_error(sentence: str, error_field: str | None = None) -> Invalid:
    return Invalid(sentence, reason="storage_not_sufficient", **({error_field: sentence} if error_field else {}))


def select_open_hypervisors(*groups: HypervisorGroup) -> Select[Hypervisor]:
    """Select the hypervisors of these locations on which a new machine may be placed."""
    return (
        select(Hypervisor)
        .where(
            Hypervisor.group_id.in_([group.id for group in groups]),
            Hypervisor.status == "up",
            Hypervisor.deploy_enabled,
            ~Hypervisor.locked,
            ~Hypervisor.maintenance,
        )
        .options(selectinload(Hypervisor.storages))
        .order_by(Hypervisor.id)
    )


def lock_hosts(query: Select[Hypervisor]) -> Sequence[Hypervisor]:
    """Return the selected hypervisors, read again and locked."""
    return session.scalars(with_lock(query, of=Hypervisor)).all()


def lock_capacity(hypervisor_id: str) -> Capacity:
    """Lock one hypervisor and return its capacity."""
    return Capacity(lock_hosts(select(Hypervisor).where(Hypervisor.id == hypervisor_id)))


def choose_host(
    group: HypervisorGroup, plan: Plan | Requirements, hypervisor: Hypervisor | None = None
) -> tuple[Hypervisor, Storage]:
    """Lock the open hypervisors of the location, or only this one, and return one on which the plan fits, and its
    storage."""
    query = select_open_hypervisors(group)
    return Capacity(lock_hosts(query.where(Hypervisor.id == hypervisor.id) if hypervisor else query)).choose_host(plan)


def ensure_space(storage: Storage, size: int, sentence: str, error_field: str | None = None) -> None:
    """Lock the storage's hypervisor. Raise when the storage has fewer than `size` GiB free."""
    lock_capacity(storage.hypervisor_id).ensure_space(storage, size, sentence, error_field)


def list_capacity_errors(group: HypervisorGroup, plans: Iterable[Plan]) -> dict[Plan, str | None]:
    """Return for each plan why no machine of that size can be placed in the location now, or None."""
    capacity = Capacity(session.scalars(select_open_hypervisors(group)).all())
    return {plan: capacity.placement_error(plan) for plan in plans}


def count_machines(group: HypervisorGroup, plan: Plan, maximum: int) -> int:
    """Return how many machines of the plan fit into the location now, at most `maximum`."""
    return Capacity(session.scalars(select_open_hypervisors(group)).all()).count_machines(plan, maximum)


def find_full_locations(groups: Sequence[HypervisorGroup]) -> set[str]:
    """Return the ids of the locations that offer plans, none of which fits any more. The number of queries is
    constant."""
    capacity = Capacity(session.scalars(select_open_hypervisors(*groups)).all())
    full = set()
    for group_id, plans in catalog.list_plans_by_location(groups).items():
        local_capacity = capacity.restrict_to_group(group_id)
        if local_capacity.hosts and plans and all(local_capacity.placement_error(plan) for plan in plans):
            full.add(group_id)
    return full
