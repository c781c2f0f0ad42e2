"""Backups of the installation: made by workers, complete or failed, pruned and deleted."""

import os
import shutil
import sqlite3
from datetime import timedelta
from unittest.mock import Mock

import pytest

from panel.backups import create as backup_creation
from panel.backups import databases
from panel.backups import restore as backup_restore
from panel.core import clock, context
from panel.core.db import session
from panel.core.errors import Problem
from panel.models import InstallationBackup, InstallationBackupSettings, Task
from panel.services import installation_backups
from tests.installation_backups.routes import PASSPHRASE, RUNS_PATH, SETTINGS_PATH, TRIGGER_PATH
from worker.backups import archives
from worker.backups.errors import TargetFailed
from worker.backups.targets import LocalTarget
from worker.engine import runner
from worker.tasks import installation_backups as worker_tasks


@pytest.fixture
def target(folder):
    return LocalTarget(folder / "installation")


@pytest.fixture
def small_parts(monkeypatch):
    """Store many parts, so that a fault can occur between two."""
    monkeypatch.setattr(archives, "PART_BYTES", 100_000)


@pytest.fixture
def enabled(call, destination):
    call("PUT", SETTINGS_PATH, enabled=True, retention_count=2, time="02:30")


@pytest.fixture
def run_schedule(run_tasks):
    """Return a function that lets the schedule become due, and runs it."""

    def run():
        session.get(InstallationBackupSettings, "installation").next_run_at = clock.now()
        session.commit()
        worker_tasks.start_due()
        run_tasks()

    return run


def fetch(target, run, file):
    with file.open("wb") as stream:
        return archives.fetch(target, run["archive"], stream)


def list_stored(folder):
    """Return the ids of the runs of which something is stored."""
    return sorted({path.parts[-3] for path in (folder / "installation/objects/archives").glob("*/*/*")})


def test_backup_is_stored_encrypted_and_restorable(back_up, destination, target, tmp_path, folder, small_parts):
    run = back_up()
    assert (run["status"], run["error"], run["trigger"]) == ("completed", None, "manual")
    assert run["destination_name"] == "offsite"
    assert run["created_at"] <= run["started_at"] <= run["finished_at"]
    file = tmp_path / "fetched"
    manifest = fetch(target, run, file)
    assert run["size"] == manifest.size == file.stat().st_size
    assert manifest.parts > 2
    assert list(archives.list_names(target)) == [run["archive"]]
    directory = tmp_path / "unpacked"
    directory.mkdir()
    backup = backup_restore.read(file, PASSPHRASE, directory)
    config = context.current().config
    assert backup.secret_key == config.secret_key
    assert backup.manifest["made_at"] == manifest.created_at
    assert backup.manifest["rows"] == {"alembic_version": 1, "content": 1}
    stored = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert config.secret_key.encode() not in stored
    assert b"SQLite format" not in stored
    with pytest.raises(Problem, match="passphrase"):
        backup_restore.read(file, "another passphrase", directory)
    assert not list(config.data_dir.glob(".backup-*")), "no copy of the database is left"


def test_incomplete_upload_is_no_archive(back_up, destination, target, folder, small_parts, monkeypatch, call):
    put, names = LocalTarget.put, []

    def fail_at_third(self, name, data):
        names.append(name)
        if len(names) == 4:
            raise TargetFailed("full") from OSError(28, "No space left on device")
        put(self, name, data)

    with monkeypatch.context() as patch:
        patch.setattr(LocalTarget, "put", fail_at_third)
        run = back_up()
    assert (run["status"], run["archive"], run["size"]) == ("failed", None, None)
    assert run["error"] == "The destination cannot be used now: No space left on device."
    assert list(archives.list_names(target)) == list_stored(folder) == []
    assert back_up()["status"] == "completed", "the next one is not affected"
    assert [row["status"] for row in call("GET", RUNS_PATH)] == ["completed", "failed"]
    assert [row["id"] for row in call("GET", f"{RUNS_PATH}?status=failed")] == [run["id"]]


def test_run_of_dead_worker_is_repeated(call, destination, target, small_parts, monkeypatch, run_tasks, folder):
    """The dead worker's parts are never mixed with those of the next one."""
    run = call("POST", TRIGGER_PATH)
    task = session.query(Task).filter_by(kind="installation_backup_create").one()
    put, count = LocalTarget.put, iter(range(1000))

    def die_at_third(self, name, data):
        if next(count) == 3:
            raise runner.LeaseLost
        put(self, name, data)

    with monkeypatch.context() as patch:
        patch.setattr(LocalTarget, "put", die_at_third)
        patch.setattr(archives, "delete_objects", lambda *_: None)  # a dead worker deletes nothing
        runner.run(task.id, "first")
    assert call("GET", f"/api/v1/backups/run/{run['id']}")["status"] == "running"
    assert (list_stored(folder), list(archives.list_names(target))) == ([run["id"]], [])
    task = session.get(Task, task.id, populate_existing=True)
    task.status, task.worker = "queued", None  # as the reaper does
    session.commit()
    runner.run(task.id, "second")
    row = call("GET", f"/api/v1/backups/run/{run['id']}")
    assert row["status"] == "completed"
    assert list(archives.list_names(target)) == [row["archive"]]
    call("DELETE", f"/api/v1/backups/run/{run['id']}")
    run_tasks()
    assert list_stored(folder) == [], "the dead worker's parts are deleted with the run"


def test_task_that_is_given_up_fails_the_run(call, destination, api_as, run_tasks):
    run = call("POST", TRIGGER_PATH)
    task = session.query(Task).filter_by(kind="installation_backup_create").one()
    task.cancel_requested_at = clock.now()
    session.commit()
    run_tasks()
    row = call("GET", f"/api/v1/backups/run/{run['id']}")
    assert (row["status"], row["error"]) == ("failed", "The task was cancelled.")


def test_one_backup_runs_at_a_time(api_as, call, destination, run_tasks):
    run = call("POST", TRIGGER_PATH)
    answer = api_as("admin", "POST", TRIGGER_PATH, json={})
    assert (answer.status_code, answer.json["reason"]) == (409, "backup_running")
    answer = api_as("admin", "DELETE", f"/api/v1/backups/run/{run['id']}")
    assert (answer.status_code, answer.json["reason"]) == (409, "backup_running")
    run_tasks()
    assert api_as("admin", "POST", TRIGGER_PATH, json={}).status_code == 200


def test_trigger_refusals(api_as, call, add_destination, destination):
    other = call("POST", "/api/v1/hypervisor/backup-storages", name="b", storage_type="local", config={"path": "/srv"})
    for wrong in (other["storage_id"], "0199c0a8-0000-7000-8000-000000000000", ""):
        answer = api_as("admin", "POST", TRIGGER_PATH, json={"destination_id": wrong or "x"})
        assert (answer.status_code, list(answer.json["errors"])) == (422, ["destination_id"])
    call("PUT", f"/api/v1/backups/destination/{destination['id']}", enabled=False)
    answer = api_as("admin", "POST", TRIGGER_PATH, json={})
    assert (answer.status_code, answer.json["reason"]) == (409, "destination_disabled")


def test_trigger_requires_passphrase(api_as, add_destination):
    body = {"destination_id": add_destination()["id"]}
    answer = api_as("admin", "POST", TRIGGER_PATH, json=body)
    assert (answer.status_code, answer.json["reason"]) == (409, "passphrase_missing")
    assert session.query(InstallationBackup).count() == 0


def test_retention_deletes_completed_older_runs_only(call, back_up, enabled, run_schedule, folder, monkeypatch):
    first, second = back_up(), back_up()
    with monkeypatch.context() as patch:
        patch.setattr(backup_creation, "write_archive", fail_with_problem)
        failed = back_up()
    assert [row["status"] for row in call("GET", RUNS_PATH)] == ["failed", "completed", "completed"]
    run_schedule()
    rows = call("GET", RUNS_PATH)
    assert [(row["trigger"], row["status"]) for row in rows] == [
        ("schedule", "completed"),
        ("manual", "failed"),
        ("manual", "completed"),
    ]
    assert [row["id"] for row in rows[1:]] == [failed["id"], second["id"]]
    assert list_stored(folder) == sorted([second["id"], rows[0]["id"]])
    assert first["id"] not in list_stored(folder)
    session.get(InstallationBackup, failed["id"]).finished_at -= timedelta(days=31)
    session.commit()
    run_schedule()
    assert failed["id"] not in [row["id"] for row in call("GET", RUNS_PATH)]


def fail_with_problem(*_):
    raise Problem("The program pg_dump is missing.")


def test_schedule_creates_one_run_and_records_failures(call, enabled, run_schedule, browser_as, destination):
    run_schedule()
    worker_tasks.start_due()
    assert [row["trigger"] for row in call("GET", RUNS_PATH)] == ["schedule"]
    assert installation_backups.find_last_failure() is None
    call("PUT", f"/api/v1/backups/destination/{destination['id']}", enabled=False)
    run_schedule()
    row = call("GET", RUNS_PATH)[0]
    assert (row["status"], row["error"]) == ("failed", "The destination is disabled.")
    assert installation_backups.find_last_failure().id == row["id"]
    assert "The last backup of the installation failed" in browser_as("admin").get("/admin").text
    call("PUT", f"/api/v1/backups/destination/{destination['id']}", enabled=True)
    run_schedule()
    assert installation_backups.find_last_failure() is None


def test_deletion_is_confirmed_before_the_row_disappears(call, back_up, destination, folder, run_tasks, target):
    run, other = back_up(), back_up()
    path = f"/api/v1/backups/run/{run['id']}"
    away = folder.with_name("away")
    folder.rename(away)  # the disk is not mounted
    assert call("DELETE", path)["status"] == "deleting"
    run_tasks()
    row = call("GET", path)
    assert row["status"] == "deleting"
    assert row["error"] == "The destination cannot be used now: the stored backups are not there."
    shutil.rmtree(folder, ignore_errors=True)
    away.rename(folder)
    session.get(InstallationBackup, run["id"]).updated_at -= timedelta(hours=2)
    session.commit()
    worker_tasks.start_due()
    run_tasks()
    assert [row["id"] for row in call("GET", RUNS_PATH)] == [other["id"]]
    assert list_stored(folder) == [other["id"]]


def test_backup_is_not_stored_where_earlier_ones_are_missing(back_up, destination, folder, call):
    back_up()
    folder.rename(folder.with_name("away"))
    run = back_up()
    assert run["status"] == "failed"
    assert run["error"].endswith(": the stored backups are not there.")
    assert list_stored(folder) == []
    row = call("POST", f"/api/v1/backups/destination/{destination['id']}/test")
    assert not row["passed"]
    assert row["steps"][0]["message"].endswith(": the stored backups are not there.")


def test_changed_archive_is_not_fetched(back_up, destination, target, folder, tmp_path):
    run = back_up()
    part = next((folder / "installation/objects/archives" / run["archive"]).glob("part-*"))
    data = bytearray(part.read_bytes())
    data[-1] ^= 1
    part.write_bytes(data)
    with pytest.raises(archives.Damaged):
        fetch(target, run, tmp_path / "fetched")


@pytest.mark.parametrize(
    ("error", "reason"),
    [(OSError(28, "No space left on device"), "No space left on device"), (sqlite3.OperationalError("full"), "full")],
)
def test_copy_that_fails_is_reported(back_up, destination, monkeypatch, error, reason, folder):
    monkeypatch.setattr(databases, "copy_database", Mock(side_effect=error))
    run = back_up()
    assert (run["status"], run["error"]) == ("failed", f"The worker cannot copy the database: {reason}.")
    assert list_stored(folder) == []


def test_copies_of_killed_processes_are_deleted(back_up, destination):
    folder = context.current().config.data_dir
    old, recent = folder / ".backup-old", folder / ".backup-recent"
    for directory in (old, recent):
        directory.mkdir()
        (directory / "database").write_text("a copy")
    os.utime(old, (0, 0))
    try:
        assert back_up()["status"] == "completed"
        assert (old.exists(), recent.exists()) == (False, True)
    finally:
        shutil.rmtree(recent)
