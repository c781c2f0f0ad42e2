"""Backups of a running machine in a bucket of a real S3 server."""

from functools import partial

import pytest

from panel.core.db import session
from panel.models import BackupDestination, BackupRepository, Task
from panel.services import backup_destinations
from worker.tasks import backup_repositories, instance_backups
from worker.tasks.backup_targets import build_target

pytestmark = pytest.mark.processes


@pytest.fixture
def destination(rolled_back_app, s3_proxy, s3_folder, run_tasks):
    config = {
        "endpoint": s3_proxy.endpoint,
        "bucket": "backups",
        "path_prefix": s3_folder.rstrip("/"),
        "access_key": "backups",
        "secret_key": "backups-secret",
    }
    backup_destinations.create(name="bucket-1", storage_type="s3", config=config)
    session.commit()
    run_tasks()
    return session.query(BackupDestination).one()


def list_objects(s3_server, prefix):
    answer = s3_server.operator.list_objects_v2(Bucket="backups", Prefix=prefix)
    return [entry["Key"].removeprefix(prefix) for entry in answer.get("Contents", ())]


def test_machine_is_restored_from_a_bucket(api_as, back_up, guest, path, run_tasks, s3_server, s3_folder):
    """A full backup, an increment, and the restore of both."""
    backups = []
    for content, kind in (("first", "full"), ("second", "incremental")):
        guest.write(content)
        backups.append(back_up(backup_type=kind))
    assert [row["status"] for row in backups] == ["complete", "complete"]
    assert backups[1]["disks"][0]["read_mode"] == "incremental"
    assert len(api_as("owner", "GET", "/api/backups?storage_type=s3").json["data"]) == 2
    repository = session.query(BackupRepository).one()
    stored = list_objects(s3_server, f"{s3_folder}{repository.id}/points/")
    assert sorted(stored) == sorted(row["id"] for row in backups)
    guest.write("third")
    for row, content in zip(backups, ("first", "second"), strict=True):
        answer = api_as("owner", "POST", f"{path}/backup/{row['id']}/restore")
        assert answer.status_code == 200, answer.text
        run_tasks()
        assert session.get(Task, answer.json["task_id"], populate_existing=True).status == "completed"
        assert guest.read() == content


def test_bucket_that_lost_its_objects_is_not_used_again(api_as, back_up, path, run_tasks, s3_server, s3_folder):
    back_up()
    for name in list_objects(s3_server, s3_folder):
        s3_server.operator.delete_object(Bucket="backups", Key=s3_folder + name)
    api_as("owner", "POST", f"{path}/backups")
    run_tasks()
    rows = api_as("owner", "GET", f"{path}/backups").json["data"]
    assert sorted(row["status"] for row in rows) == ["complete", "failed"]
    assert list_objects(s3_server, s3_folder) == []


def test_refused_deletion_keeps_the_backup(api_as, back_up, find_backup, path, s3_proxy):
    """As where an object is locked: the storage has the backup still, so the claim ends."""
    backup = back_up()
    s3_proxy.set_fault(403, "DELETE", "/points/")
    answer = api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
    assert (answer.status_code, answer.json["reason"]) == (422, "delete_not_dispatched")
    assert find_backup(backup).delete_claimed_at is None
    s3_proxy.clear()
    assert api_as("owner", "DELETE", f"{path}/backup/{backup['id']}").status_code == 200
    assert find_backup(backup) is None


def test_deletion_without_answer_stays_claimed(api_as, back_up, find_backup, path, s3_proxy, monkeypatch):
    """Whether the backup was deleted is not known until the storage answers again."""
    monkeypatch.setattr(backup_repositories, "build_target", partial(build_target, attempts=1))
    backup = back_up()
    s3_proxy.set_fault("lost", part="/points/")
    answer = api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
    assert (answer.status_code, answer.json["reason"]) == (503, "delete_dispatch_unconfirmed")
    s3_proxy.clear()
    instance_backups.reconcile_deletions()
    assert find_backup(backup) is None
