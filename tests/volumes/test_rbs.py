"""Backups of volumes on a remote backup server."""

import pytest

from panel.core.db import session
from panel.models import InstanceBackup, Task
from tests.instance_backups.rbs_destination import destination  # noqa: F401  (fixture)
from tests.support.rbs_server import rbs_server  # noqa: F401  (fixture)


@pytest.fixture(autouse=True)
def run_tasks_while_waiting(inline_workers, destination):
    """Run queued tasks while a request waits for a result."""


def test_volume_is_backed_up_restored_and_deleted(call_storage_api, volume, run_tasks, rbs_server, node):
    def write(text):
        with node.state.transaction() as db:
            values = volume.storage.name, volume.disk_name, "/file", text
            db.execute("INSERT OR REPLACE INTO written VALUES (?, ?, ?, ?)", values)

    path = f"volume/{volume.id}/backup"
    write("before")
    call_storage_api("POST", path)
    run_tasks()
    [backup] = session.query(InstanceBackup).all()
    assert (backup.status, backup.error) == ("complete", None)
    [(namespace, kind, group, _)] = rbs_server.datastore.snapshots
    assert (namespace, kind, group) == ("panel", "vm", volume.id)
    write("after")
    answer = call_storage_api("POST", f"{path}/{backup.id}/restore", mode="in_place")
    run_tasks()
    task = session.get(Task, answer.json["queue"]["id"], populate_existing=True)
    assert (task.status, task.error) == ("completed", None)
    [row] = node.state.rows("SELECT text FROM written WHERE disk = ?", volume.disk_name)
    assert row["text"] == "before"
    assert call_storage_api("DELETE", f"{path}/{backup.id}").status_code == 200
    assert list(rbs_server.datastore.snapshots) == []
