"""A destination for backups of a running machine, and helpers for the routes of backups."""

from datetime import timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import BackupDestination, InstanceBackup
from panel.services import backup_destinations
from panel.services.instance_backups.create import get_or_create_repository
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


@pytest.fixture
def add_row(rolled_back_app, destination, cast):
    """Return a function that adds a complete backup without a point: `add_row("nightly", size=5)`."""

    def add(name, *, caller="owner", instance_id="0199c0a8-0000-7000-8000-00000000000a", age=0, **values):
        place = values.pop("destination", destination)
        account = getattr(cast, caller)
        backup = InstanceBackup(
            account_id=account.id,
            repository=get_or_create_repository(place, account.id),
            destination=place,
            instance_id=instance_id,
            **{"recorded_name": "Shop", "recorded_hostname": "shop.example.com", "backup_type": "full"} | values,
            name=name,
            created_at=clock.now() - timedelta(days=age),
        )
        backup.status = values.get("status", "complete")
        session.add(backup)
        session.commit()
        return backup

    return add
