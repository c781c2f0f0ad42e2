"""Forgetting a backup destination that is gone for good."""

from datetime import timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import (
    AuditEntry,
    BackupCopy,
    BackupDestination,
    BackupDestinationSize,
    BackupPolicy,
    BackupRepository,
    InstanceBackup,
)
from panel.schemas.backup_policies import DEFAULTS
from panel.services import backup_copies, backup_destinations, backup_policies, lost_destinations
from tests.support.backups import add_row, destination, folder  # noqa: F401  (fixtures)


@pytest.fixture
def browser(browser_as):
    return browser_as("admin")


@pytest.fixture
def gone(destination):
    """A destination that was found unavailable and is disabled."""
    destination.status, destination.checked_at, destination.enabled = "unavailable", clock.now(), False
    session.add(BackupDestinationSize(destination_id=destination.id, day=clock.now().date(), stored_bytes=1))
    session.commit()
    return destination


@pytest.fixture
def second(destination, tmp_path):
    row = backup_destinations.create(name="second", storage_type="local", config={"path": str(tmp_path / "second")})
    session.commit()
    return row


def add_copy(backup, place, status="complete"):
    repository = backup_copies.get_or_create_repository(backup.repository, place)
    copy = BackupCopy(account_id=backup.account_id, backup_id=backup.id, repository=repository, destination=place)
    copy.backup_name, copy.backup_at, copy.backup_values = backup.name, backup.created_at, {}
    copy.status, copy.retention_days = status, 30
    session.add(copy)
    session.commit()
    return copy


def path_of(destination):
    return f"/admin/backup-destinations/{destination.id}/forget"


def test_lost_destination_is_forgotten_with_its_rows(browser, gone, second, add_row):
    lost, _ = add_row("lost", protected=True), add_row("another", caller="outsider")
    elsewhere = add_row("elsewhere", destination=second, parent_backup_id=lost.id)
    add_copy(elsewhere, gone)
    assert lost_destinations.count_losses(gone) == (2, 1, 2, 1, 0)
    page = browser.get(path_of(gone)).text
    for text in ("2 backups", "of 2 accounts", "1 is protected", "1 copy of a backup"):
        assert text in page, text
    assert path_of(gone) in browser.get(path_of(gone).removesuffix("/forget")).text
    assert browser.post(path_of(gone), data={"typed": "other"}).status_code == 422
    assert session.get(BackupDestination, gone.id) is not None
    gone_id = gone.id
    assert browser.post(path_of(gone), data={"typed": "backups-1"}).status_code == 303
    session.expire_all()
    assert session.get(BackupDestination, gone_id) is None
    assert session.query(InstanceBackup).all() == [elsewhere]
    assert elsewhere.parent_backup_id is None
    assert session.query(BackupCopy).count() == session.query(BackupDestinationSize).count() == 0
    assert {row.destination_id for row in session.query(BackupRepository)} == {second.id}
    entry = session.query(AuditEntry).order_by(AuditEntry.id.desc()).first()
    assert (entry.object_type, entry.object_id, entry.object_name) == ("backup_destination", gone_id, "backups-1")


def test_backups_with_a_copy_are_recovered(gone, second, add_row):
    copied, failed, claimed = add_row("copied", protected=True, damaged=True), add_row("failed"), add_row("claimed")
    claimed.delete_claimed_at = clock.now()
    copies = [add_copy(copied, second), add_copy(failed, second, "failed"), add_copy(claimed, second)]
    assert lost_destinations.forget(gone) == (2, 0, 1, 0, 1)
    session.commit()
    session.expire_all()
    assert session.query(InstanceBackup).all() == [copied]
    assert (copied.destination, copied.repository, copied.is_recovered) == (second, copies[0].repository, True)
    assert (copied.protected, copied.damaged, copied.checkpoint) == (True, False, None)
    assert session.query(BackupCopy).count() == 3


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"status": "available"}, "The destination is available."),
        ({"status": "unknown"}, "Test the destination first."),
        ({"checked_at": clock.now() - timedelta(days=9)}, "Test the destination first."),
        ({"enabled": True}, "Disable the destination first, so that"),
    ],
)
def test_destination_that_may_be_there_is_refused(browser, gone, add_row, values, text):
    add_row("nightly")
    for name, value in values.items():
        setattr(gone, name, value)
    session.commit()
    assert text in browser.get(path_of(gone)).text
    assert browser.post(path_of(gone), data={"typed": "backups-1"}).status_code == 409
    assert session.query(InstanceBackup).count() == 1


def test_users_of_a_destination_are_named(browser, gone, second):
    backup_policies.create_plan(name="Nightly plan", **DEFAULTS | {"retention_count": 3}, storage=gone.id)
    second.copy_to = gone
    session.commit()
    page = browser.get(path_of(gone)).text
    assert "Change them first: Nightly plan." in page
    assert "Change them first: second." in page
    assert browser.post(path_of(gone), data={"typed": "backups-1"}).status_code == 409
    assert session.query(BackupPolicy).one().destination_id == gone.id


def test_forgetting_needs_permission(browser_as, gone):
    for method in ("get", "post"):
        assert getattr(browser_as("owner"), method)(path_of(gone)).status_code in (303, 403, 404)
    assert session.query(BackupDestination).count() == 1
