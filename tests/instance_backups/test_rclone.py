"""A backup of a running machine in a remote of rclone."""

import pytest

from panel.core.db import session
from panel.models import BackupDestination, BackupRepository, Task
from panel.services import backup_destinations

pytestmark = pytest.mark.processes


@pytest.fixture
def destination(rolled_back_app, rclone_remotes, monkeypatch, folder, run_tasks):
    monkeypatch.chdir("/")  # paths of the remote `directory` begin there
    config = {"remote": "directory", "path_prefix": str(folder).removeprefix("/")}
    backup_destinations.create(name="offsite", storage_type="rclone", config=config)
    session.commit()
    run_tasks()
    return session.query(BackupDestination).one()


def test_machine_is_restored_from_a_remote(api_as, back_up, find_backup, guest, path, run_tasks, folder):
    guest.write("before")
    backup = back_up()
    assert backup["status"] == "complete"
    point = folder / session.query(BackupRepository).one().id / "objects" / "points" / backup["id"]
    assert point.is_file()
    guest.write("after")
    answer = api_as("owner", "POST", f"{path}/backup/{backup['id']}/restore")
    run_tasks()
    assert session.get(Task, answer.json["task_id"], populate_existing=True).status == "completed"
    assert guest.read() == "before"
    assert api_as("owner", "DELETE", f"{path}/backup/{backup['id']}").status_code == 200
    assert find_backup(backup) is None
    assert not point.exists()
