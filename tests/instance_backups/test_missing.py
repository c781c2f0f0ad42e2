"""Backups that their destination has lost: found by a comparison, and counted as missing after a second one."""

from datetime import timedelta

import pytest

from panel.core.db import session
from panel.models import BackupRepository, Task
from worker.tasks import backup_repositories as repository_tasks


@pytest.fixture
def run_comparison(run_tasks, monkeypatch):
    """Return a function that runs the daily garbage collection, which compares first, and returns its task."""
    monkeypatch.setattr(repository_tasks, "GRACE_SECONDS", 0)

    def run():
        repository = session.query(BackupRepository).one()
        repository.collected_at = None
        session.commit()
        repository_tasks.collect_due()
        run_tasks()
        return session.query(Task).filter_by(kind="backup_collect_garbage").order_by(Task.id.desc()).first()

    return run


@pytest.fixture
def point_file(folder):
    """Return a function that finds the file of a backup."""
    return lambda backup: next(folder.glob(f"*/objects/points/{backup['id']}"))


def make_candidate_older(find_backup, backup):
    find_backup(backup).missing_candidate_at -= timedelta(hours=1)
    session.commit()


def test_missing_backup_is_confirmed_by_second_comparison(
    api_as, path, machine, folder, back_up, run_comparison, point_file, find_backup
):
    """BAK-06, BAK-10, BAK-51"""
    backup = back_up()
    packs = sorted(file for file in folder.glob("*/objects/packs/*/*") if file.is_file())
    point_file(backup).unlink()

    def read_ids(caller, list_path):
        return [row["id"] for row in api_as(caller, "GET", list_path).json["data"]]

    for _ in range(2):  # the second one is too early to count
        assert run_comparison().status == "failed"
        assert read_ids("owner", "/api/backups") == read_ids("owner", f"{path}/backups") == [backup["id"]]
        assert find_backup(backup).missing_candidate_at
        assert find_backup(backup).missing_confirmed_at is None
    assert sorted(file for file in folder.glob("*/objects/packs/*/*") if file.is_file()) == packs
    make_candidate_older(find_backup, backup)
    assert run_comparison().status == "completed"
    assert read_ids("owner", "/api/backups") == read_ids("owner", f"{path}/backups") == []
    assert api_as("owner", "GET", f"/api/backup/{backup['id']}").status_code == 404
    [row] = api_as("admin", "GET", "/api/v1/instance-backups").json["data"]
    assert (row["id"], bool(row["missing_candidate_at"]), bool(row["missing_confirmed_at"])) == (
        backup["id"],
        True,
        True,
    )
    restore = api_as("admin", "POST", f"/api/v1/instance/{machine.id}/backup/{backup['id']}/restore", json={})
    assert (restore.status_code, restore.json["reason"]) == (422, "backup_missing")
    assert api_as("admin", "DELETE", f"/api/v1/instance/{machine.id}/backup/{backup['id']}").status_code == 200
    assert find_backup(backup) is None


def test_first_comparison_without_a_backup_deletes_nothing(back_up, run_comparison, point_file, find_backup):
    """The task fails, so that an operator sees it before anything of the backup is deleted."""
    backup = back_up()
    file = point_file(backup)
    content = file.read_bytes()
    file.unlink()
    task = run_comparison()
    assert (task.status, str(task.error)) == (
        "failed",
        "The storage lacks backups that it should have. Nothing was deleted.",
    )
    file.write_bytes(content)
    assert run_comparison().status == "completed"
    assert find_backup(backup).missing_candidate_at is None


def test_backup_that_comes_back_is_shown_again(api_as, back_up, run_comparison, point_file, find_backup):
    backup = back_up()
    file = point_file(backup)
    content = file.read_bytes()
    file.unlink()
    run_comparison()
    make_candidate_older(find_backup, backup)
    run_comparison()
    assert api_as("owner", "GET", "/api/backups").json["data"] == []
    file.write_bytes(content)
    run_comparison()
    [row] = api_as("admin", "GET", "/api/v1/instance-backups").json["data"]
    assert (row["missing_candidate_at"], row["missing_confirmed_at"]) == (None, None)
    assert len(api_as("owner", "GET", "/api/backups").json["data"]) == 1
