"""Workers verify what is stored: a sample every week, everything every month, and daily while something is damaged."""

from datetime import timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import BackupRepository, Task
from worker.tasks import backup_verification


@pytest.fixture
def verify_after(run_tasks):
    """Return a function that makes the last verifications older, runs what is due, and returns its tasks."""

    def run(days):
        repository = session.query(BackupRepository).one()
        for name in ("initialized_at", "sampled_at", "verified_at"):
            if moment := getattr(repository, name):
                setattr(repository, name, moment - timedelta(days=days))
        session.commit()
        known_ids = {row.id for row in session.query(Task)}
        backup_verification.verify_due()
        run_tasks()
        return [row for row in session.query(Task).filter_by(kind="backup_verify") if row.id not in known_ids]

    return run


@pytest.fixture
def damage_packs(folder):
    """Return a function that fills the stored packs with zeros."""

    def damage():
        packs = [file for file in folder.glob("*/objects/packs/*/*") if file.is_file()]
        assert packs
        for pack in packs:
            pack.write_bytes(bytes(pack.stat().st_size))

    return damage


def test_verification_is_due_weekly_for_a_sample_and_monthly_for_everything(back_up, find_backup, verify_after):
    backup = back_up()
    assert verify_after(days=6) == []
    (task,) = verify_after(days=2)
    assert (task.status, task.account_id, task.arguments) == ("completed", None, {"is_complete": False})
    assert find_backup(backup).verified_at is None, "a sample does not prove that a backup is intact"
    (task,) = verify_after(days=23)
    assert (task.status, task.arguments) == ("completed", {"is_complete": True})
    assert clock.now() - find_backup(backup).verified_at < timedelta(minutes=1)
    assert verify_after(days=1) == []


def test_damaged_backup_is_shown_and_repaired_by_next_backup(api_as, path, back_up, verify_after, damage_packs):
    backup = back_up()
    damage_packs()
    verify_after(days=31)

    def read_rows():
        return {row["id"]: row for row in api_as("owner", "GET", f"{path}/backups").json["data"]}

    assert (read_rows()[backup["id"]]["damaged"], read_rows()[backup["id"]]["verified_at"]) == (True, None)
    back_up()
    assert verify_after(days=1) != [], "daily while a backup is damaged"
    rows = read_rows().values()
    assert len(rows) == 2
    assert {(row["damaged"], row["verified_at"] is None) for row in rows} == {(False, False)}


def test_destination_that_fails_marks_no_backup_as_damaged(back_up, find_backup, folder, verify_after):
    backup = back_up()
    folder.rename(folder.with_name("elsewhere"))
    (task,) = verify_after(days=31)
    assert task.status == "failed"
    assert not find_backup(backup).damaged
    assert session.query(BackupRepository).one().verified_at is None
