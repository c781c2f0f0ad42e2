"""Tests whether backups can be restored: choosing backups, and what workers report."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Select, delete, func, select
from sqlalchemy.orm import aliased, joinedload

from panel.core import clock, jobs
from panel.core.db import session
from panel.core.errors import Conflict, Invalid, NotFound, Problem
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import BackupRestoreTest, Hypervisor, Instance, InstanceBackup
from panel.services import placement, settings
from panel.services.access import Access
from panel.services.backup_coverage import build_usable_conditions
from panel.services.backup_files.sessions import MIN_FREE_GIB, count_copied_bytes
from panel.services.backup_restores import BYTES_PER_GIB, ensure_node_available, ensure_restorable

task_kind("backup_restore_test", "Restore test of a backup")

MAX_CANDIDATES = 20
"""Instances that are considered at a time, those without a test for the longest time first."""
KEEP_DAYS = 180
"""Days after which a result is deleted."""
ATTENTION_DAYS = 7
"""Days for which a failed test needs attention."""


def start(backup: InstanceBackup, *, actor: str) -> BackupRestoreTest:
    """Request a test. Raise when the backup cannot be restored, or the hypervisor has no room for it."""
    instance = backup.instance
    if instance is None or not instance.disks:
        raise Conflict(message("The instance of this backup does not exist any more."), reason="not_deployed")
    ensure_restorable(backup)
    ensure_node_available(instance.hypervisor)
    ensure_room(instance, backup)
    running = select(BackupRestoreTest.id).where(
        BackupRestoreTest.status == "running", BackupRestoreTest.hypervisor_id == instance.hypervisor_id
    )
    if session.scalar(running.limit(1)):
        raise Conflict(message("A backup is being tested on this hypervisor."), reason="hypervisor_backup_busy")
    row = BackupRestoreTest(
        account_id=backup.account_id,
        instance_id=instance.id,
        backup_id=backup.id,
        name=instance.display_name,
        backup_at=backup.created_at,
        hypervisor=instance.hypervisor,
        storage=instance.disks[0].storage,
    )
    session.add(row)
    session.flush()
    jobs.enqueue(
        "backup_restore_test",
        "backup_restore_test",
        row,
        lock="exclusive",
        actor=actor,
        hypervisor_id=instance.hypervisor_id,
    )
    return row


def ensure_room(instance: Instance, backup: InstanceBackup) -> None:
    """Raise when the hypervisor lacks memory for a second machine of this size, or room for copies of the disks."""
    capacity = placement.Capacity([instance.hypervisor])
    needed = count_copied_bytes(backup) + MIN_FREE_GIB * BYTES_PER_GIB
    if capacity.ram[instance.hypervisor] < instance.ram or instance.disks[0].storage.free < needed:
        sentence = message("The hypervisor has too little room for a test of this backup.")
        raise Invalid(sentence, reason="storage_not_sufficient")


def start_due() -> None:
    """Request the next test, if fewer than the settings say were made in the last 24 hours."""
    maximum = settings.get().backup_restore_tests_per_day
    since = clock.now() - timedelta(days=1)
    recent = select(func.count()).select_from(BackupRestoreTest).where(BackupRestoreTest.created_at >= since)
    if maximum == 0 or session.scalars(recent).one() >= maximum:
        return
    for backup in session.scalars(select_candidates()).all():
        try:
            start(backup, actor="system")
        except Problem:
            continue
        return


def select_candidates() -> Select[InstanceBackup]:
    """Select the newest usable backup of each instance that was not tested for a day, those without a test first."""
    newer = aliased(InstanceBackup)
    last_test = (
        select(func.max(BackupRestoreTest.created_at))
        .where(BackupRestoreTest.instance_id == Instance.id)
        .correlate(Instance)
        .scalar_subquery()
    )
    newest = (
        select(func.max(newer.id))
        .where(
            newer.instance_id == Instance.id,
            newer.account_id == Instance.account_id,
            newer.status == "complete",
            newer.damaged.is_(False),
            newer.missing_confirmed_at.is_(None),
            newer.delete_claimed_at.is_(None),
        )
        .correlate(Instance)
        .scalar_subquery()
    )
    query = select(InstanceBackup).join(InstanceBackup.instance).join(Instance.hypervisor)
    query = query.where(*build_usable_conditions(), InstanceBackup.id == newest, Hypervisor.status == "up")
    query = query.where((last_test.is_(None)) | (last_test < clock.now() - timedelta(days=1)))
    return query.order_by(last_test.nulls_first(), InstanceBackup.id).limit(MAX_CANDIDATES)


def find_by_id(test_id: str) -> BackupRestoreTest | None:
    """Return the test or None, read again, for workers."""
    return session.get(BackupRestoreTest, test_id, populate_existing=True)


def get(test_id: str, account: Access | None = None) -> BackupRestoreTest:
    """Return a test. Members reach those of their instances through the backup, not through this."""
    row = find_by_id(test_id)
    if row is None or (account is not None and row.account_id != account.id):
        raise NotFound(message("No such restore test."))
    return row


def listing(status: str | None = None) -> Select[BackupRestoreTest]:
    """Select tests with what their rows show, newest first."""
    query = select(BackupRestoreTest).options(
        joinedload(BackupRestoreTest.account), joinedload(BackupRestoreTest.hypervisor)
    )
    query = query.where(BackupRestoreTest.status == status) if status else query
    return query.order_by(BackupRestoreTest.id.desc())


def map_latest(backup_ids: Iterable[str]) -> dict[str, BackupRestoreTest]:
    """Return the latest test of each of these backups, for those that have one."""
    latest = select(func.max(BackupRestoreTest.id)).where(BackupRestoreTest.backup_id.in_(list(backup_ids)))
    query = select(BackupRestoreTest).where(BackupRestoreTest.id.in_(latest.group_by(BackupRestoreTest.backup_id)))
    return {row.backup_id: row for row in session.scalars(query)}


def list_failed() -> Sequence[BackupRestoreTest]:
    """Return the failed tests of the last days that no later test of the same instance has passed."""
    later = aliased(BackupRestoreTest)
    is_repaired = select(later.id).where(
        later.instance_id == BackupRestoreTest.instance_id, later.id > BackupRestoreTest.id, later.status == "passed"
    )
    since = clock.now() - timedelta(days=ATTENTION_DAYS)
    query = listing("failed").where(BackupRestoreTest.created_at >= since, ~is_repaired.exists())
    return session.scalars(query.limit(50)).all()


def record_result(row: BackupRestoreTest, status: str, **facts: Any) -> None:
    """Record the result: evidence, error, boot_seconds, screenshot."""
    row.status, row.finished_at = status, clock.now()
    for name, value in facts.items():
        setattr(row, name, value)
    row.has_screenshot = facts.get("screenshot") is not None


def record_aborted(test_id: str, error: str) -> None:
    row = find_by_id(test_id)
    if row is not None and row.status == "running":
        record_result(row, "aborted", error=error)


def delete_old() -> None:
    limit = clock.now() - timedelta(days=KEEP_DAYS)
    is_old = BackupRestoreTest.created_at < limit, BackupRestoreTest.status != "running"
    session.execute(delete(BackupRestoreTest).where(*is_old))


def list_machine_ids(hypervisor_id: str) -> set[str]:
    """Return the ids of machines that tests have, or that the last ones may have left until they are rolled back."""
    since = clock.now() - timedelta(days=ATTENTION_DAYS)
    query = select(BackupRestoreTest.id).where(
        BackupRestoreTest.hypervisor_id == hypervisor_id, BackupRestoreTest.created_at >= since
    )
    return set(session.scalars(query))
