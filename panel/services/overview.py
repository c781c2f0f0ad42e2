"""What the platform is doing and what needs attention, in figures."""

from dataclasses import dataclass

from redis import RedisError
from sqlalchemy import and_, case, func, or_, select

from panel.core.db import session
from panel.models import Address, Disk, Hypervisor, HypervisorGroup, Instance, Storage, Subnet, Task, Volume
from panel.schemas.constants import INSTANCE_STATES
from panel.services import hypervisors, instances, subnets, workers

NEARLY_FULL_PERCENT = 90
SCARCE_PERCENT = 10
"""Address space or a disk is running out when this share of it, in percent, or less is free."""


@dataclass
class LocationCapacity:
    """What the hypervisors of one group have, overcommit counted in, and what of it is promised."""

    group: HypervisorGroup
    nodes: int = 0
    up: int = 0
    instances: int = 0
    cpu_cores: float = 0
    cpu_allocated: int = 0
    ram: float = 0
    ram_allocated: int = 0
    storage: float = 0
    storage_allocated: int = 0


def count_states(hypervisor=None):
    """How many instances are in each state, on one hypervisor or on all."""
    query = select(Instance.state.label("word"), func.count()).group_by("word")
    if hypervisor:
        query = query.where(Instance.hypervisor_id == hypervisor.id)
    return dict.fromkeys(INSTANCE_STATES, 0) | dict(session.execute(query).all())


def list_capacities():
    """The room of every group, by name."""
    rooms = {group.id: LocationCapacity(group) for group in session.scalars(hypervisors.select_groups())}
    group = Hypervisor.group_id
    for query, names in (
        (
            select(
                group,
                func.count(),
                func.sum(case((Hypervisor.status == "up", 1), else_=0)),
                func.sum(Hypervisor.cpu_cores * Hypervisor.cpu_overcommit),
                func.sum(Hypervisor.memory_mb * Hypervisor.memory_overcommit),
            ),
            ("nodes", "up", "cpu_cores", "ram"),
        ),
        (
            select(group, func.count(), func.sum(Instance.cpu_cores), func.sum(Instance.ram)).join(
                Instance, Instance.hypervisor_id == Hypervisor.id
            ),
            ("instances", "cpu_allocated", "ram_allocated"),
        ),
        (
            select(group, func.sum(Storage.capacity * Storage.overcommit) / hypervisors.BYTES_PER_GIB)
            .join(Hypervisor.storages)
            .where(Storage.enabled),
            ("storage",),
        ),
        (select(group, func.sum(Disk.size)).join(Hypervisor.storages).join(Disk), ("storage_allocated",)),
    ):
        for group_id, *figures in session.execute(query.group_by(group)):
            for name, figure in zip(names, figures, strict=True):
                setattr(rooms[group_id], name, figure)
    return list(rooms.values())


def list_full_storages():
    """Storages that the node reports as nearly full, the fullest first."""
    full = select(Storage).where(Storage.capacity > 0, Storage.free * 100 <= Storage.capacity * SCARCE_PERCENT)
    return session.scalars(full.order_by(Storage.free).limit(5)).all()


def list_scarce_locations():
    """Open groups whose public IPv4 subnets are nearly used up, with how many addresses each has left."""
    free = func.sum(case((Address.interface_id.is_(None) & ~Address.reserved, 1), else_=0))
    left = select(HypervisorGroup, free).join(Subnet, Subnet.group_id == HypervisorGroup.id).join(Address)
    left = left.where(HypervisorGroup.enabled, Subnet.enabled, *subnets.PUBLIC_IPV4).group_by(HypervisorGroup.id)
    return session.execute(left.having(free * 100 <= func.count() * SCARCE_PERCENT).order_by(free).limit(5)).all()


def select_undeleted_volumes():
    """Volumes that customers deleted and whose last attempt to remove them failed."""
    return select(Volume).where(Volume.status == "deleting", Volume.delete_attempts > 0).order_by(Volume.id)


def select_missing_instances():
    return select(Instance).where(Instance.lost).order_by(Instance.id.desc())


def select_failed_since(moment):
    """Tasks that were asked for since then and failed because of the platform, newest first. Ids begin with their time,
    so no index is needed but the one they have."""
    failed = select(Task).where(Task.id >= make_first_id(moment), Task.status == "failed")
    return failed.where(~CAUSED_BY_CUSTOMER).order_by(Task.id.desc())


DOWNLOAD_ERROR_CLASSES = ("Unfetched", "Superseded")
CUSTOMER_ERROR_CLASSES = ("AgentSilent", *DOWNLOAD_ERROR_CLASSES)
"""Failures whose cause is in a customer's guest or in what a customer entered."""
CAUSED_BY_CUSTOMER = and_(
    Task.account_id.is_not(None),
    or_(func.coalesce(Task.error_class, "").in_(CUSTOMER_ERROR_CLASSES), Task.resource_type == "certificate"),
)
FAILED_WHAT = case(
    (Task.resource_type == "certificate", "certificates"),
    (Task.error_class.in_(DOWNLOAD_ERROR_CLASSES), "downloads"),
    else_="guests",
)


def list_customer_failures(moment):
    """What failed since then because of customers' guests and entries: `certificates`, `downloads` or `guests` → pairs
    of sentence and count, most first."""
    count, what = func.count(), FAILED_WHAT.label("what")
    query = select(what, Task.error, count).where(
        Task.id >= make_first_id(moment), Task.status == "failed", CAUSED_BY_CUSTOMER
    )
    found = {}
    for word, *counted in session.execute(query.group_by(what, Task.error).order_by(count.desc(), Task.error)):
        found.setdefault(word, []).append(counted)
    return found


def select_unaccelerated_hypervisors():
    """Hypervisors that have answered and have no hardware acceleration."""
    known = Hypervisor.version.is_not(None), Hypervisor.driver != "simulated", ~Hypervisor.accelerated
    return select(Hypervisor).where(*known).order_by(Hypervisor.name)


def list_full_locations(rooms):
    """The rooms of open locations in which no offered plan fits any more."""
    open_rooms = [room for room in rooms if room.group.enabled and room.nodes]
    full = instances.find_full_locations([room.group for room in open_rooms])
    return [room for room in open_rooms if room.group.id in full]


def get_fullest_resource(room):
    """Of what a location has the most used resource, and its share in percent."""
    shares = {
        "processor": (room.cpu_allocated, room.cpu_cores),
        "memory": (room.ram_allocated, room.ram),
        "storage": (room.storage_allocated, room.storage),
    }
    found = {name: 100 * (given or 0) / there for name, (given, there) in shares.items() if there}
    return max(found.items(), key=lambda share: share[1], default=("processor", 0))


def make_first_id(moment):
    """The beginning of a UUIDv7 that is made at this moment."""
    digits = f"{int(moment.timestamp() * 1000):012x}"
    return f"{digits[:8]}-{digits[8:]}"


def count_workers():
    """How many worker processes there are; None when Redis, who would know, does not answer."""
    try:
        return workers.count_alive()
    except (RedisError, OSError):
        return None
