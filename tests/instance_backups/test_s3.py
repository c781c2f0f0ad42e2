"""Backups of a running machine in a bucket of a real S3 server."""

import os
import subprocess
import sys
from functools import partial

import pytest
from botocore.exceptions import ClientError

from panel.core.config import ROOT
from panel.core.db import session
from panel.models import BackupCopy, BackupDestination, BackupRepository, Task
from panel.services import backup_destinations
from tests.support.s3_server import LOCKED_BUCKET
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


@pytest.fixture
def locked_second(destination, s3_server, s3_folder, run_tasks):
    """A bucket with object lock, to which the backups are copied for 30 days."""
    config = {
        "endpoint": s3_server.endpoint,
        "bucket": LOCKED_BUCKET,
        "path_prefix": s3_folder.rstrip("/"),
        "access_key": "operator",  # this server lets nobody else lock objects
        "secret_key": "operator-secret",
    }
    second = backup_destinations.create(name="locked", storage_type="s3", config=config)
    backup_destinations.update(destination, copy_to_id=second.id, copy_retention_days=30)
    session.commit()
    run_tasks()
    return second


def test_copy_is_locked_by_the_server_and_restored_without_panel_and_first_bucket(
    api_as, locked_second, back_up, guest, path, run_tasks, s3_server, s3_folder, tmp_path
):
    guest.write("content of the guest")
    backup = back_up()
    (copy,) = api_as("admin", "GET", "/api/v1/backup-copies").json["data"]
    assert (copy["status"], copy["is_locked"], copy["error"]) == ("complete", True, None)
    retained_until = session.query(BackupCopy).one().retained_until
    repository = session.query(BackupRepository).filter(BackupRepository.copy_of_id.is_not(None)).one()
    prefix = f"{s3_folder}{repository.id}/"
    versions = s3_server.operator.list_object_versions(Bucket=LOCKED_BUCKET, Prefix=prefix)["Versions"]
    protected = [row for row in versions if row["Key"].removeprefix(prefix).startswith(("packs", "index", "points"))]
    assert len(protected) >= 3
    for row in protected:
        version = {"Bucket": LOCKED_BUCKET, "Key": row["Key"], "VersionId": row["VersionId"]}
        head = s3_server.operator.head_object(**version)
        assert head["ObjectLockMode"] == "COMPLIANCE"
        assert head["ObjectLockRetainUntilDate"] >= retained_until
        with pytest.raises(ClientError):
            s3_server.operator.delete_object(**version)

    api_as("owner", "DELETE", f"{path}/backup/{backup['id']}")
    for name in list_objects(s3_server, s3_folder):
        s3_server.operator.delete_object(Bucket="backups", Key=s3_folder + name)
    key = tmp_path / "key"
    key.write_text(repository.key)
    source = [f"s3://{LOCKED_BUCKET}/{prefix}", "--endpoint", s3_server.endpoint, "--key-file", key]
    keys = {"AWS_ACCESS_KEY_ID": "operator", "AWS_SECRET_ACCESS_KEY": "operator-secret"}
    listed = run_restore_command(source, keys)
    assert backup["id"] in listed.stdout, listed.stderr
    name = session.query(BackupCopy).one().backup_values["disks"][0]["name"]
    disk = [f"--point={backup['id']}", f"--disk={name}", f"--output={tmp_path / 'disk.raw'}"]
    result = run_restore_command([*source, *disk], keys)
    assert result.returncode == 0, result.stderr
    assert b"content of the guest" in read_written(tmp_path / "disk.raw")

    guest.write("later")
    assert api_as("admin", "POST", f"/api/v1/backup-copy/{copy['id']}/recover").status_code == 200
    answer = api_as("owner", "POST", f"{path}/backup/{backup['id']}/restore")
    run_tasks()
    assert session.get(Task, answer.json["task_id"], populate_existing=True).status == "completed"
    assert guest.read() == "content of the guest"


def read_written(path):
    """Return the content of a sparse file without its holes."""
    content, end = b"", 0
    with path.open("rb") as file:
        while end < path.stat().st_size:
            try:
                start = os.lseek(file.fileno(), end, os.SEEK_DATA)
            except OSError:  # only a hole follows
                break
            end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            content += os.pread(file.fileno(), end - start, start)
    return content


def run_restore_command(arguments, environment):
    command = [sys.executable, "-m", "worker.backups.restore", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True)
