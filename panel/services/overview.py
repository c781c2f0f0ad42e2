"""What operators see on the overview: the platform's capacity and what needs attention."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from redis import RedisError
from sqlalchemy import Row, Select, and_, case, func, or_, select, text

from panel.core import clock
from panel.core.db import session
from panel.models import Address, Hypervisor, HypervisorGroup, Instance, Storage, Subnet, Task, Volume
from panel.models.instances import IS_MISSING_SQL
from panel.models.tasks import has_failed
from panel.schemas.constants import INSTANCE_STATES
from panel.services import hypervisors, placement, subnets, workers
from panel.services.metrics.hosts import list_location_loads

NEARLY_FULL_PERCENT = 90
SCARCE_PERCENT = 10
"""Address space or a disk is scarce when this share of it, in percent, or less is free."""


@dataclass
class LocationCapacity:
    """Capacity of the hypervisors of one group, including overcommit, what of it is allocated, and what its machines
    really use of the hosts."""

    group: HypervisorGroup
    nodes: int = 0
    up: int = 0
    instances: int = 0
    cpu_cores: float = 0
    cpu_allocated: int = 0
    host_cores: int = 0
    cpu_used: float | None = None
    """Cores; None if nothing was measured within the last minute, like `ram_used`."""
    ram: float = 0
    ram_allocated: int = 0
    host_ram: int = 0
    ram_used: float | None = None
    storage: float = 0
    storage_allocated: int = 0
    storage_used: float = 0
    """GiB that the enabled storages report as used, of `host_storage`."""
    host_storage: float = 0
    addresses: int = 0
    """Public IPv4 addresses of enabled subnets."""
    addresses_allocated: int = 0
    """Those that are assigned or reserved."""


def count_states(hypervisor: Hypervisor | None = None) -> dict[str, int]:
    """Return how many instances are in each state, on one hypervisor or on all."""
    query = select(Instance.state.label("word"), func.count()).group_by("word")
    if hypervisor:
        query = query.where(Instance.hypervisor_id == hypervisor.id)
    return dict.fromkeys(INSTANCE_STATES, 0) | dict(session.execute(query).all())


def list_capacities() -> list[LocationCapacity]:
    """Return the capacity of every group, by name. Six queries."""
    capacities = {group.id: LocationCapacity(group) for group in session.scalars(hypervisors.select_groups())}
    for query, names in select_capacity_parts():
        for group_id, *values in session.execute(query):
            for name, value in zip(names, values, strict=True):
                setattr(capacities[group_id], name, convert_decimal(value))
    for group_id, load in list_location_loads().items():
        capacities[group_id].cpu_used, capacities[group_id].ram_used = load["cores"], load["memory"]
    return list(capacities.values())


def convert_decimal(value: Any) -> Any:
    """Return a number that can be divided by a float: PostgreSQL returns sums of sums as Decimal."""
    if not isinstance(value, Decimal):
        return value
    return int(value) if value == int(value) else float(value)


def select_capacity_parts() -> Iterator[tuple[Select, tuple[str, ...]]]:
    """Yield selects of a group's id and values of its `LocationCapacity`, with the names of these."""
    hosts = select(
        Hypervisor.group_id,
        func.count(),
        func.sum(case((Hypervisor.status == "up", 1), else_=0)),
        func.sum(Hypervisor.cpu_cores),
        func.sum(Hypervisor.cpu_cores * Hypervisor.cpu_overcommit),
        func.sum(Hypervisor.memory_mb),
        func.sum(Hypervisor.memory_mb * Hypervisor.memory_overcommit),
    )
    yield hosts.group_by(Hypervisor.group_id), ("nodes", "up", "host_cores", "cpu_cores", "host_ram", "ram")
    # Each hypervisor's sums are computed once, in a subquery: an aggregate over them would repeat them for each sum.
    allocated = select(
        Hypervisor.group_id,
        Hypervisor.instances_count.label("instances"),
        Hypervisor.allocated_cpu_cores.label("cores"),
        Hypervisor.allocated_ram.label("ram"),
        Hypervisor.allocated_storage.label("storage"),
    ).subquery()
    sums = select(
        allocated.c.group_id, *(func.sum(allocated.c[name]) for name in ("instances", "cores", "ram", "storage"))
    )
    yield (
        sums.group_by(allocated.c.group_id),
        ("instances", "cpu_allocated", "ram_allocated", "storage_allocated"),
    )
    gib = hypervisors.BYTES_PER_GIB
    storages = select(
        Hypervisor.group_id,
        func.sum(Storage.capacity * Storage.overcommit) / gib,
        func.sum(Storage.capacity) * 1.0 / gib,
        func.sum(Storage.capacity - Storage.free) * 1.0 / gib,
    )
    storages = storages.join(Hypervisor.storages).where(Storage.enabled).group_by(Hypervisor.group_id)
    yield storages, ("storage", "host_storage", "storage_used")
    taken = func.sum(case((Address.interface_id.is_(None) & ~Address.reserved, 0), else_=1))
    addresses = select(Subnet.group_id, func.count(), taken).join(Address)
    yield (
        addresses.where(Subnet.enabled, *subnets.PUBLIC_IPV4).group_by(Subnet.group_id),
        ("addresses", "addresses_allocated"),
    )


def list_full_storages() -> Sequence[Storage]:
    """Return storages that the node reports as nearly full, fullest first."""
    query = select(Storage).where(Storage.capacity > 0, Storage.free * 100 <= Storage.capacity * SCARCE_PERCENT)
    return session.scalars(query.order_by(Storage.free).limit(5)).all()


def list_scarce_locations() -> Sequence[Row[HypervisorGroup, int]]:
    """Return open groups whose public IPv4 subnets are nearly used up, each with the number of free addresses."""
    free = func.sum(case((Address.interface_id.is_(None) & ~Address.reserved, 1), else_=0))
    query = select(HypervisorGroup, free).join(Subnet, Subnet.group_id == HypervisorGroup.id).join(Address)
    query = query.where(HypervisorGroup.enabled, Subnet.enabled, *subnets.PUBLIC_IPV4).group_by(HypervisorGroup.id)
    return session.execute(query.having(free * 100 <= func.count() * SCARCE_PERCENT).order_by(free).limit(5)).all()


def select_undeleted_volumes() -> Select[Volume]:
    """Select volumes that customers deleted and whose last attempt to remove them failed."""
    return select(Volume).where(Volume.status == "deleting", Volume.delete_attempts > 0).order_by(Volume.id)


def select_missing_instances() -> Select[Instance]:
    return select(Instance).where(text(IS_MISSING_SQL)).order_by(Instance.id.desc())


def select_failed_since(moment: datetime) -> Select[Task]:
    """Select tasks created since the moment that failed because of the platform, newest first.

    It compares ids, which begin with the time of creation, so the primary key's index is enough.
    """
    query = select(Task).where(Task.id >= make_first_id(moment), has_failed(Task.status))
    return query.where(~CAUSED_BY_CUSTOMER).order_by(Task.id.desc())


def select_recent_failures() -> Select[Task]:
    """Select tasks of the last 24 hours that failed because of the platform."""
    recent = has_failed(Task.status), Task.finished_at > clock.now() - timedelta(hours=24)
    return select(Task).where(*recent, ~CAUSED_BY_CUSTOMER)


DOWNLOAD_ERROR_CLASSES = ("FetchError", "Superseded")
CUSTOMER_ERROR_CLASSES = ("AgentUnavailable", *DOWNLOAD_ERROR_CLASSES)
"""Failures whose cause is in a customer's guest or in a customer's input."""
CAUSED_BY_CUSTOMER = and_(
    Task.account_id.is_not(None),
    or_(func.coalesce(Task.error_class, "").in_(CUSTOMER_ERROR_CLASSES), Task.resource_type == "certificate"),
)
FAILED_WHAT = case(
    (Task.resource_type == "certificate", "certificates"),
    (Task.error_class.in_(DOWNLOAD_ERROR_CLASSES), "downloads"),
    else_="guests",
)


def list_customer_failures(moment: datetime) -> dict[str, list[list[Any]]]:
    """Return failures since the moment that customers' guests or input caused.

    The keys are `certificates`, `downloads` and `guests`, the values lists of sentence and count, most frequent first.
    """
    count, category_column = func.count(), FAILED_WHAT.label("what")
    query = select(category_column, Task.error, count).where(
        Task.id >= make_first_id(moment), has_failed(Task.status), CAUSED_BY_CUSTOMER
    )
    failures: dict[str, list[list[Any]]] = {}
    for category, *sentence_and_count in session.execute(
        query.group_by(category_column, Task.error).order_by(count.desc(), Task.error)
    ):
        failures.setdefault(category, []).append(sentence_and_count)
    return failures


def select_unaccelerated_hypervisors() -> Select[Hypervisor]:
    """Select hypervisors that have answered and have no hardware acceleration."""
    conditions = Hypervisor.version.is_not(None), Hypervisor.driver != "simulated", ~Hypervisor.accelerated
    return select(Hypervisor).where(*conditions).order_by(Hypervisor.name)


def list_full_locations(capacities: Iterable[LocationCapacity]) -> list[LocationCapacity]:
    """Return the capacities of open locations in which no offered plan fits any more."""
    open_capacities = [capacity for capacity in capacities if capacity.group.enabled and capacity.nodes]
    full_ids = placement.find_full_locations([capacity.group for capacity in open_capacities])
    return [capacity for capacity in open_capacities if capacity.group.id in full_ids]


def get_fullest_resource(capacity: LocationCapacity) -> tuple[str, float]:
    """Return the name of a location's most used resource, and its share in percent."""
    shares = {
        "processor": (capacity.cpu_allocated, capacity.cpu_cores),
        "memory": (capacity.ram_allocated, capacity.ram),
        "storage": (capacity.storage_allocated, capacity.storage),
    }
    percentages = {name: 100 * (allocated or 0) / total for name, (allocated, total) in shares.items() if total}
    return max(percentages.items(), key=lambda share: share[1], default=("processor", 0))


def make_first_id(moment: datetime) -> str:
    """Return the beginning of a UUIDv7 that is created at this moment."""
    digits = f"{int(moment.timestamp() * 1000):012x}"
    return f"{digits[:8]}-{digits[8:]}"


def count_workers() -> int | None:
    """Return the number of worker processes; None when Redis is unreachable."""
    try:
        return workers.count_alive()
    except (RedisError, OSError):
        return None
