"""What is allocated of hypervisors, storages, resource packs and subnets: sums over the rows of other tables.

The columns are deferred; the selects of lists load them.
"""

from functools import reduce
from operator import add
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import InstrumentedAttribute, column_property

from panel.models.hypervisors import Hypervisor, Storage
from panel.models.instances import Disk, Instance
from panel.models.microvm_image_builds import MicrovmImageBuild
from panel.models.microvm_pools import MicrovmPoolMember
from panel.models.microvms import Microvm
from panel.models.migrations import Migration
from panel.models.resource_packs import ResourcePack
from panel.models.subnets import Address, Subnet
from panel.models.volumes import Volume, VolumeSnapshot


def sum_rows(column: Any, *conditions: ColumnElement[bool], owner: type) -> ColumnElement[int]:
    """Return the sum over the rows that meet the conditions, which refer to the row of `owner`; 0 without rows."""
    return func.coalesce(select(func.sum(column)).where(*conditions).correlate(owner).scalar_subquery(), 0)


def count_rows(model: type, *conditions: ColumnElement[bool], owner: type) -> ColumnElement[int]:
    return select(func.count()).select_from(model).where(*conditions).correlate(owner).scalar_subquery()


def sum_instances(column: InstrumentedAttribute[int]) -> ColumnElement[int]:
    """Return the sum over a hypervisor's instances and those that are migrating to it."""
    incoming = (Migration.target_id == Hypervisor.id, Migration.status == "active")
    return sum_rows(column, Instance.hypervisor_id == Hypervisor.id, owner=Hypervisor) + sum_rows(
        column, Instance.id == Migration.instance_id, *incoming, owner=Hypervisor
    )


def sum_microvms(name: str) -> ColumnElement[int]:
    """Return the sum over a hypervisor's live micro VMs, also those that do not run: they may start again. Machines
    that build images count as well, and members of warm pools while they boot."""
    microvms, builds = (
        sum_rows(getattr(model, name), model.hypervisor_id == Hypervisor.id, model.ended_at.is_(None), owner=Hypervisor)
        for model in (Microvm, MicrovmImageBuild)
    )
    is_booting = MicrovmPoolMember.hypervisor_id == Hypervisor.id, MicrovmPoolMember.state == "booting"
    return microvms + builds + sum_rows(getattr(MicrovmPoolMember, name), *is_booting, owner=Hypervisor)


STORED_SIZES: tuple[tuple[Any, Any, tuple[ColumnElement[bool], ...]], ...] = (
    (Disk.storage_id, Disk.size, ()),
    (Volume.storage_id, func.coalesce(Volume.growing_to, Volume.size), ()),
    (VolumeSnapshot.storage_id, VolumeSnapshot.size, ()),
    (Microvm.storage_id, Microvm.disk_gb, (Microvm.ended_at.is_(None),)),
    (MicrovmImageBuild.storage_id, 2 * MicrovmImageBuild.disk_gb, (MicrovmImageBuild.ended_at.is_(None),)),
    (MicrovmPoolMember.storage_id, MicrovmPoolMember.disk_gb, ()),
)
"""Everything that takes space in a storage: storage id, GiB, and a condition of the rows that do. A build has its disk
and at the end a copy of it."""


def sum_stored_sizes(*conditions: ColumnElement[bool], owner: type) -> ColumnElement[int]:
    sums = (
        sum_rows(size, storage_id == Storage.id, *own_conditions, *conditions, owner=owner)
        for storage_id, size, own_conditions in STORED_SIZES
    )
    return reduce(add, sums)


Hypervisor.allocated_cpu_cores = column_property(
    sum_instances(Instance.cpu_cores) + sum_microvms("cpu_cores"), deferred=True, group="allocation"
)
Hypervisor.allocated_ram = column_property(
    sum_instances(Instance.ram) + sum_microvms("memory_mb"), deferred=True, group="allocation"
)
Hypervisor.allocated_storage = column_property(
    sum_stored_sizes(Storage.hypervisor_id == Hypervisor.id, owner=Hypervisor), deferred=True, group="allocation"
)

Storage.allocated = column_property(
    sum_stored_sizes(owner=Storage)
    + sum_rows(
        Disk.size,
        Disk.instance_id == Migration.instance_id,
        Migration.storage_id == Storage.id,
        Migration.status == "active",
        owner=Storage,
    ),
    deferred=True,
)

ResourcePack.used_instances = column_property(
    count_rows(Instance, Instance.pack_id == ResourcePack.id, owner=ResourcePack), deferred=True, group="usage"
)
ResourcePack.used_cpu_cores = column_property(
    sum_rows(Instance.cpu_cores, Instance.pack_id == ResourcePack.id, owner=ResourcePack), deferred=True, group="usage"
)
ResourcePack.used_ram = column_property(
    sum_rows(Instance.ram, Instance.pack_id == ResourcePack.id, owner=ResourcePack), deferred=True, group="usage"
)
ResourcePack.used_storage = column_property(
    sum_rows(Disk.size, Disk.instance_id == Instance.id, Instance.pack_id == ResourcePack.id, owner=ResourcePack),
    deferred=True,
    group="usage",
)

IN_SUBNET, IS_UNASSIGNED = Address.subnet_id == Subnet.id, Address.interface_id.is_(None)
Subnet.addresses_count = column_property(
    count_rows(Address, IN_SUBNET, owner=Subnet), deferred=True, group="statistics"
)
Subnet.available_count = column_property(
    count_rows(Address, IN_SUBNET, IS_UNASSIGNED, Address.reserved.is_(False), owner=Subnet),
    deferred=True,
    group="statistics",
)
Subnet.reserved_count = column_property(
    count_rows(Address, IN_SUBNET, IS_UNASSIGNED, Address.reserved.is_(True), owner=Subnet),
    deferred=True,
    group="statistics",
)
