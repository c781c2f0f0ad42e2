"""Archives of the installation in a bucket of a real S3 server, and on an SSH server through rclone."""

import json

import pytest

from panel.backups import restore as backup_restore
from panel.core import context
from panel.core.db import session
from panel.models import InstallationBackup
from tests.installation_backups.archive_command import run
from tests.installation_backups.routes import PASSPHRASE, SETTINGS_PATH
from worker.backups import archives

pytestmark = pytest.mark.processes


@pytest.fixture
def bucket_config(s3_proxy, s3_folder):
    return {
        "endpoint": s3_proxy.endpoint,
        "bucket": "backups",
        "path_prefix": s3_folder.rstrip("/"),
        "access_key": "backups",
        "secret_key": "backups-secret",
    }


@pytest.fixture
def use(add_destination, call, tmp_path):
    """Return a function that adds a destination for backups, and returns a file that describes it."""

    def add(storage_type, config):
        row = add_destination(storage_type=storage_type, **config)
        call("PUT", SETTINGS_PATH, destination_id=row["id"], passphrase=PASSPHRASE)
        file = tmp_path / "destination.json"
        file.write_text(json.dumps({"storage_type": storage_type, "config": config}))
        return file

    return add


def ensure_restorable(description, row, tmp_path):
    """Fetch the archive as on a new machine, and compare it with the installation."""
    file, directory = tmp_path / "fetched", tmp_path / "unpacked"
    directory.mkdir()
    code, output = run("list", description)
    assert (code, row["archive"] in output) == (0, True), output
    code, output = run("fetch", description, row["archive"], file)
    assert code == 0, output
    assert file.stat().st_size == row["size"]
    assert backup_restore.read(file, PASSPHRASE, directory).secret_key == context.current().config.secret_key


@pytest.fixture
def list_objects(s3_server, s3_folder):
    """Return a function that lists the stored objects of archives."""

    def listing():
        prefix = f"{s3_folder}installation/archives/"
        answer = s3_server.operator.list_objects_v2(Bucket="backups", Prefix=prefix)
        return [entry["Key"].removeprefix(prefix) for entry in answer.get("Contents", ())]

    return listing


def test_archive_in_bucket_is_fetched_and_deleted(
    use, bucket_config, back_up, call, run_tasks, tmp_path, list_objects, monkeypatch
):
    monkeypatch.setattr(archives, "PART_BYTES", 300_000)
    description = use("s3", bucket_config)
    row = back_up()
    assert row["status"] == "completed"
    ensure_restorable(description, row, tmp_path)
    assert len(list_objects()) > 2
    call("DELETE", f"/api/v1/backups/run/{row['id']}")
    run_tasks()
    assert (list_objects(), session.query(InstallationBackup).count()) == ([], 0)


def test_bucket_that_fails_during_upload_has_no_archive(use, bucket_config, back_up, s3_proxy, list_objects):
    use("s3", bucket_config)
    s3_proxy.set_fault(403, "PUT", "/manifest")
    row = back_up()
    assert (row["status"], row["error"]) == ("failed", "The destination cannot be used now: 403 AccessDenied.")
    assert list_objects() == []
    s3_proxy.clear()
    assert back_up()["status"] == "completed"


def test_unconfirmed_deletion_stays(use, bucket_config, back_up, call, s3_proxy, run_tasks, list_objects):
    use("s3", bucket_config)
    row = back_up()
    s3_proxy.set_fault(403, "DELETE", "/part-")
    path = f"/api/v1/backups/run/{row['id']}"
    call("DELETE", path)
    run_tasks()
    assert (call("GET", path)["status"], len(list_objects())) == ("deleting", 1), "without its manifest it is none"
    s3_proxy.clear()
    call("DELETE", path)
    run_tasks()
    assert (list_objects(), session.query(InstallationBackup).count()) == ([], 0)


def test_archive_on_ssh_server_is_fetched(use, rclone_remotes, back_up, tmp_path):
    folder = tmp_path / "remote"
    description = use("rclone", {"remote": "server", "path_prefix": str(folder).removeprefix("/")})
    row = back_up()
    assert (row["status"], row["error"]) == ("completed", None)
    ensure_restorable(description, row, tmp_path)
