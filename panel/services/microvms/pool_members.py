"""Members of warm pools: taking one for a new micro VM, and which to boot and to remove.

A member counts as allocated: its disk always, processors and memory only while it boots. Nothing else counts it.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Row, Select, exists, func, or_, select

from panel.core import clock, jobs
from panel.core.db import session, with_lock
from panel.core.errors import Invalid
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Hypervisor, MicrovmImage, MicrovmPool, MicrovmPoolMember, MicrovmProfile, Storage, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import placement
from panel.services.microvms.machines import make_machine_fields
from panel.services.placement import Capacity, Requirements

task_kind("microvm_pool_boot", "Warm pool: boot")
task_kind("microvm_pool_remove", "Warm pool: removal")

POOL_ACTOR = "system"
FIRST_BOOT_RETRY_SECONDS, MAX_BOOT_RETRY_SECONDS = 10, 3600
"""Seconds until a failed boot is repeated: the first pause, which doubles each time, and the longest."""
REMOVAL_RETRY_DELAY = timedelta(minutes=1)
NO_ROOM_MESSAGE = message("The hypervisor has no room for another member at the moment.")


def select_usable() -> Select[MicrovmPoolMember]:
    """Select the members that are what their image and the node's profile want now."""
    member, image = MicrovmPoolMember, MicrovmImage
    query = select(member).join(MicrovmPool, member.pool_id == MicrovmPool.id)
    query = query.join(MicrovmProfile, MicrovmPool.profile_id == MicrovmProfile.id)
    query = query.join(image, MicrovmPool.image_id == image.id).join(Storage, member.storage_id == Storage.id)
    return query.where(
        MicrovmProfile.enabled,
        MicrovmProfile.allows_internet_access == member.address.is_not(None),
        image.status == "available",
        image.files_key == member.boot["key"].as_string(),
        image.kernel_options == member.boot["options"].as_string(),
        image.cpu_cores == member.cpu_cores,
        image.memory_mb == member.memory_mb,
        image.disk_gb == member.disk_gb,
        Storage.enabled,
    )


def take_ready_member(capacity: Capacity, image: MicrovmImage, needs: Requirements) -> dict[str, Any] | None:
    """Delete a ready member and return the fields of the micro VM that it becomes, or None when there is none.

    `capacity` is that of locked hosts. The one with the most free memory is chosen.
    """
    if (needs.cpu_cores, needs.ram, needs.storage) != (image.cpu_cores, image.memory_mb, image.disk_gb):
        return None
    member = MicrovmPoolMember
    hosts = {host.id: host for host in capacity.hosts if capacity.has_cores_and_ram(host, needs)}
    ready = select_usable().where(member.state == "ready", member.image_id == image.id)
    host_ids = session.scalars(
        ready.where(member.hypervisor_id.in_(hosts)).with_only_columns(member.hypervisor_id).distinct()
    ).all()
    if not host_ids:
        return None
    host = max((hosts[host_id] for host_id in host_ids), key=capacity.ram.__getitem__)
    oldest = ready.where(member.hypervisor_id == host.id).order_by(member.id).limit(1)
    ready_member = session.scalar(with_lock(oldest, of=member, skip_locked=True))
    if ready_member is None:
        return None
    names = ("id", "sandbox_id", "boot", "mac", "address", "cpu_cores", "memory_mb", "disk_gb", "storage")
    fields = {name: getattr(ready_member, name) for name in names}
    session.delete(ready_member)
    session.flush()
    return {**fields, "hypervisor": host}


def list_hypervisor_ids() -> list[str]:
    """Return the nodes that have pools or members."""
    pools = select(MicrovmProfile.hypervisor_id).join(MicrovmPool, MicrovmPool.profile_id == MicrovmProfile.id)
    return sorted(session.scalars(pools.union(select(MicrovmPoolMember.hypervisor_id))))


def refill(hypervisor_id: str) -> None:
    """Request what the node's pools need next: removals, and at most one boot."""
    hosts = placement.lock_hosts(select(Hypervisor).where(Hypervisor.id == hypervisor_id))
    if not hosts or hosts[0].status != "up":
        return
    discard_unneeded(hypervisor_id)
    request_removals(hypervisor_id)
    request_boot(hosts[0])
    session.flush()


def discard_unneeded(hypervisor_id: str) -> None:
    """Mark for removal the members that are not usable, too many, or whose boot was lost."""
    member = MicrovmPoolMember
    own = member.hypervisor_id == hypervisor_id, member.state.in_(("booting", "ready"))
    members = session.scalars(with_lock(select(member).where(*own), of=member, skip_locked=True)).all()
    if not members:
        return
    usable_ids = set(session.scalars(select_usable().where(*own).with_only_columns(member.id)))
    booting_ids = [row.id for row in members if row.state == "booting"]
    opened = select(Task.resource_id).where(Task.resource_id.in_(booting_ids), Task.status.in_(OPEN_STATUSES))
    open_ids = set(session.scalars(opened)) if booting_ids else set()
    pools = select(MicrovmPool.id, MicrovmPool.count).where(MicrovmPool.id.in_({row.pool_id for row in members}))
    room: dict[str | None, int] = {pool_id: count for pool_id, count in session.execute(pools)}
    for row in sorted(members, key=lambda row: (row.state == "booting", row.id)):
        is_lost = row.state == "booting" and row.id not in open_ids
        if is_lost or row.id not in usable_ids or not room[row.pool_id]:
            row.state = "removing"
        else:
            room[row.pool_id] -= 1


def request_removals(hypervisor_id: str) -> None:
    member = MicrovmPoolMember
    session.flush()
    is_requested = exists().where(
        Task.resource_id == member.id, Task.kind == "microvm_pool_remove", Task.status.in_(OPEN_STATUSES)
    )
    is_due = or_(member.next_removal_at.is_(None), member.next_removal_at <= clock.now())
    query = select(member).where(member.hypervisor_id == hypervisor_id, member.state == "removing", is_due)
    for row in session.scalars(query.where(~is_requested).order_by(member.id)).all():
        enqueue("microvm_pool_remove", row, lock="final")


def request_boot(host: Hypervisor) -> None:
    """Request the boot of a member of the pool that lacks the most, unless one boots on the node."""
    is_open = host.deploy_enabled and not host.locked and not host.maintenance
    booting = select(MicrovmPoolMember.id).where(
        MicrovmPoolMember.hypervisor_id == host.id, MicrovmPoolMember.state == "booting"
    )
    if not is_open or session.scalar(booting.limit(1)):
        return
    ready = select(func.count()).where(MicrovmPoolMember.pool_id == MicrovmPool.id, MicrovmPoolMember.state == "ready")
    missing = MicrovmPool.count - ready.correlate(MicrovmPool).scalar_subquery()
    query = select(MicrovmPool).join(MicrovmPool.profile).join(MicrovmPool.image).order_by(missing.desc())
    pool = session.scalar(
        query.where(
            MicrovmProfile.hypervisor_id == host.id,
            MicrovmProfile.enabled,
            MicrovmImage.status == "available",
            missing > 0,
            or_(MicrovmPool.next_boot_at.is_(None), MicrovmPool.next_boot_at <= clock.now()),
        ).limit(1)
    )
    if pool:
        boot_member(pool, host)


def boot_member(pool: MicrovmPool, host: Hypervisor) -> None:
    image = pool.image
    needs = Requirements(image.cpu_cores, image.memory_mb, image.disk_gb)
    try:
        storage = Capacity([host]).choose_host(needs)[1]
    except Invalid:
        record_failure(pool, NO_ROOM_MESSAGE)
        return
    member = MicrovmPoolMember(
        **make_machine_fields(image, needs, host, storage),
        pool_id=pool.id,
        image=image,
    )
    session.add(member)
    session.flush()
    enqueue("microvm_pool_boot", member, lock="exclusive")


def enqueue(kind: str, member: MicrovmPoolMember, *, lock: str) -> Task:
    return jobs.enqueue(
        kind, "microvm_pool_member", member, lock=lock, actor=POOL_ACTOR, hypervisor_id=member.hypervisor_id
    )


def find_by_id(member_id: str) -> MicrovmPoolMember | None:
    """Return the member or None, read again; for workers."""
    return session.get(MicrovmPoolMember, member_id, populate_existing=True)


def lock(*member_ids: str) -> list[MicrovmPoolMember]:
    """Return these members, locked and read again."""
    query = select(MicrovmPoolMember).where(MicrovmPoolMember.id.in_(member_ids)).order_by(MicrovmPoolMember.id)
    return list(session.scalars(with_lock(query, of=MicrovmPoolMember)))


def record_ready(member: MicrovmPoolMember) -> None:
    """Record that a boot has succeeded. A member that nobody needs any more stays marked for removal."""
    if member.state == "booting":
        member.state = "ready"
    if member.pool:
        member.pool.failed_boots, member.pool.error, member.pool.next_boot_at = 0, None, None


def record_boot_failure(member: MicrovmPoolMember, error: str) -> None:
    """Mark the member for removal. Its pool tries again later, unless the boot only ended because it was unneeded."""
    if member.state == "booting" and member.pool:
        record_failure(member.pool, error)
    member.state = "removing"


def record_failure(pool: MicrovmPool, error: str) -> None:
    delay = min(FIRST_BOOT_RETRY_SECONDS * 2 ** min(pool.failed_boots, 16), MAX_BOOT_RETRY_SECONDS)
    pool.failed_boots, pool.error = pool.failed_boots + 1, error
    pool.next_boot_at = clock.now() + timedelta(seconds=delay)


def record_removal_failure(member: MicrovmPoolMember) -> None:
    member.next_removal_at = clock.now() + REMOVAL_RETRY_DELAY


def delete(member: MicrovmPoolMember) -> None:
    """Delete the row of a member. Nothing of it is left on the node."""
    session.delete(member)
    session.flush()


def list_on_node(hypervisor_id: str) -> Sequence[Row]:
    """Return id, state and time of the last change of the node's members, in one query."""
    columns = MicrovmPoolMember.id, MicrovmPoolMember.state, MicrovmPoolMember.updated_at
    return session.execute(select(*columns).where(MicrovmPoolMember.hypervisor_id == hypervisor_id)).all()


def discard_lost(member_ids: Sequence[str]) -> None:
    """Mark for removal those of the members that are still ready."""
    for member in lock(*member_ids):
        if member.state == "ready":
            member.state = "removing"
    session.flush()
