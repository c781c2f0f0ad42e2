"""A destination for backups of a running machine, and helpers for the routes of backups."""

import pytest

from panel.core.db import session
from panel.models import BackupDestination, InstanceBackup
from panel.services import backup_destinations
from panel.workflows import waiting
from tests.support.task_queue import run_queued_calls


@pytest.fixture
def inline_workers(monkeypatch):
    """Run queued tasks while a request waits for a result."""
    monkeypatch.setattr(waiting.time, "sleep", lambda _: run_queued_calls())


@pytest.fixture
def no_workers(inline_workers, monkeypatch):
    """Run no worker, and let a waiting request time out at once."""
    times = iter(range(10_000))
    monkeypatch.setattr(waiting.time, "sleep", lambda _: None)
    monkeypatch.setattr(waiting.time, "monotonic", lambda: next(times))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "backups"


@pytest.fixture
def destination(rolled_back_app, folder, run_tasks):
    backup_destinations.create(name="backups-1", storage_type="local", config={"path": str(folder)})
    session.commit()
    run_tasks()
    return session.query(BackupDestination).one()


@pytest.fixture
def path(machine, destination):
    return f"/api/instance/{machine.id}"


@pytest.fixture
def back_up(api_as, path, run_tasks):
    """Return a function that backs up the machine and returns the row of the list."""

    def request(**body):
        answer = api_as("owner", "POST", f"{path}/backups", json=body)
        assert (answer.status_code, answer.json) == (200, {"success": True, "message": "Backup requested."})
        run_tasks()
        return api_as("owner", "GET", f"{path}/backups").json["data"][0]

    return request


@pytest.fixture
def find_backup(rolled_back_app):
    """Return a function that reads the row of a backup again, or returns None."""
    return lambda row: session.get(InstanceBackup, row["id"], populate_existing=True)
