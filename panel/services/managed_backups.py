"""Charging for managed backups: those that policies and jobs of the platform made.

What is charged is the space that they use: the bytes of the chunks in the account's repository, each counted once,
however many backups use it. Garbage collection counts them once a day; a new backup adds what it stored. A backup
server has the chunks to itself, so there it is what its backups have sent. A location's switch `managed_backups_billed`
decides whether they are metered.
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

from sqlalchemy import ColumnElement, and_, delete, exists, func, or_, select, update
from sqlalchemy.exc import IntegrityError

from panel.core import clock
from panel.core.db import session, with_lock
from panel.models import (
    BackupPolicy,
    BackupRepository,
    HypervisorGroup,
    Instance,
    InstanceBackup,
    ManagedBackupUsage,
)
from panel.services import settings, usage

RESOURCE_TYPE = "managed_backups"
BYTES_PER_GIB = 1024**3
ROWS_PER_BATCH = 200


def find_group_id(policy: BackupPolicy, instance: Instance) -> str | None:
    """Return the location for which a backup is managed; None when a customer's policy requested it, or when an
    external billing system charges for the instance."""
    is_managed = policy.account_id is None and instance.billing_mode != "external"
    return instance.group_id if is_managed else None


def map_groups(repository_id: str) -> dict[str, str]:
    """Return the location of each managed backup in the repository, by the backup's id."""
    conditions = InstanceBackup.repository_id == repository_id, InstanceBackup.status == "complete"
    query = select(InstanceBackup.id, InstanceBackup.managed_group_id).where(*conditions)
    return {backup_id: group for backup_id, group in session.execute(query) if group}


def on_backup_complete(backup: InstanceBackup) -> None:
    """Add what a new managed backup has stored."""
    if not backup.managed_group_id:
        return
    row = get_or_create(backup.account_id, backup.repository_id, backup.managed_group_id)
    values = {"bytes": ManagedBackupUsage.bytes + backup.size}
    session.execute(update(ManagedBackupUsage).where(ManagedBackupUsage.id == row.id).values(**values))


def get_or_create(account_id: str, repository_id: str, group_id: str) -> ManagedBackupUsage:
    key = {"repository_id": repository_id, "group_id": group_id}
    query = select(ManagedBackupUsage).filter_by(**key)
    if row := session.scalar(query):
        return row
    row = ManagedBackupUsage(account_id=account_id, **key)
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError:  # another worker has added it
        return session.scalars(query).one()
    return row


def record_count(repository: BackupRepository, counted: Mapping[str, int], *, since: datetime | None) -> None:
    """Record the bytes of each location that a count begun at `since` found. Later backups are added to them; without a
    count it is what all backups have stored."""
    for group_id in counted.keys() | sum_sizes(repository.id, since).keys():
        get_or_create(repository.account_id, repository.id, group_id)
    query = select(ManagedBackupUsage).where(ManagedBackupUsage.repository_id == repository.id)
    rows = session.scalars(with_lock(query)).all()
    added = sum_sizes(repository.id, since)  # after the lock: a backup that ends now waits, and adds itself
    for row in rows:
        row.bytes = counted.get(row.group_id, 0) + added.get(row.group_id, 0)


def sum_sizes(repository_id: str, since: datetime | None) -> dict[str, int]:
    """Return what the managed backups completed since then have stored, by location."""
    query = select(InstanceBackup.managed_group_id, func.sum(InstanceBackup.size)).where(
        InstanceBackup.repository_id == repository_id,
        InstanceBackup.status == "complete",
        InstanceBackup.managed_group_id.is_not(None),
    )
    if since:
        query = query.where(InstanceBackup.completed_at >= since)
    rows = session.execute(query.group_by(InstanceBackup.managed_group_id))
    return {group_id: int(size) for group_id, size in rows if group_id}


def update_metering() -> int:
    """Start, change or end the metering of some rows whose bytes, price or switch have changed, each at most once an
    hour. Return their number."""
    now, price = clock.now(), Decimal(str(settings.get().managed_backup_price)).quantize(usage.CHARGE_QUANTUM)
    is_billed = build_billed_condition()
    row = ManagedBackupUsage
    is_changed = row.metered_bytes.is_distinct_from(row.bytes) | row.metered_price.is_distinct_from(price)
    is_first_in_hour = row.metered_at.is_(None) | (row.metered_at < usage.truncate_to_hour(now))
    due = or_(and_(is_billed, is_changed, is_first_in_hour), and_(~is_billed, row.metered_bytes.is_not(None)))
    query = select(row, is_billed).where(due).order_by(row.id).limit(ROWS_PER_BATCH)
    found = session.execute(with_lock(query, of=row)).all()
    for changed, billed in found:
        if billed:
            meter(changed, price)
        else:
            usage.stop_metering(changed)
            changed.metered_bytes = changed.metered_price = None
        changed.metered_at = now
    session.flush()
    return len(found)


def delete_unused() -> None:
    """Delete the rows of repositories that are gone, when their metering has ended."""
    has_repository = exists().where(BackupRepository.id == ManagedBackupUsage.repository_id)
    session.execute(delete(ManagedBackupUsage).where(ManagedBackupUsage.metered_bytes.is_(None), ~has_repository))


def build_billed_condition() -> ColumnElement[bool]:
    """Return the condition that the location charges for managed backups, and that there are some."""
    is_switched_on = exists().where(
        HypervisorGroup.id == ManagedBackupUsage.group_id, HypervisorGroup.managed_backups_billed
    )
    has_repository = exists().where(BackupRepository.id == ManagedBackupUsage.repository_id)
    return and_(ManagedBackupUsage.bytes > 0, is_switched_on, has_repository)


def meter(row: ManagedBackupUsage, price: Decimal) -> None:
    """Charge for the row's present bytes, from the next hour on if it is metered already."""
    size = Decimal(row.bytes) / BYTES_PER_GIB
    plan, charge = f"{size:.2f} GiB", (price * size).quantize(usage.CHARGE_QUANTUM)
    if row.metered_bytes is None or usage.change_price(row, plan=plan, price=charge) is None:
        mode = "cloud_service"
        usage.start_metering(RESOURCE_TYPE, row, name=make_name(row), plan=plan, price=charge, billing_mode=mode)
    row.metered_bytes, row.metered_price = row.bytes, price


def make_name(row: ManagedBackupUsage) -> str:
    """Return what customers see: the names of location and destination."""
    group = session.get_one(HypervisorGroup, row.group_id)
    return f"{group.display_name}, {session.get_one(BackupRepository, row.repository_id).destination.name}"
