"""Backup destinations that rclone reaches: settings, and the check by a worker."""

import pytest

from panel.core.db import session
from panel.models import BackupDestination, BackupRepository
from panel.workflows import waiting
from tests.support.task_queue import run_queued_calls

LIST_PATH = "/api/v1/hypervisor/backup-storages"


@pytest.fixture
def create(api_as):
    """Return a function that adds a destination and returns the path of its operations."""

    def add(**config):
        body = {"name": "offsite", "storage_type": "rclone", "config": config}
        answer = api_as("admin", "POST", LIST_PATH, json=body)
        assert answer.status_code == 200, answer.text
        return f"/api/v1/hypervisor/backup-storage/{answer.json['data']['storage_id']}"

    return add


def get_config():
    return session.query(BackupDestination).populate_existing().one().config


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({}, "config.remote"),
        ({"path_prefix": "a"}, "config.remote"),
        ({"remote": ""}, "config.remote"),
        ({"remote": ":sftp,host=example.com"}, "config.remote"),
        ({"remote": "offsite:folder"}, "config.remote"),
        ({"remote": "--config"}, "config.remote"),
        ({"remote": "offsite", "path_prefix": "../a"}, "config.path_prefix"),
        ({"remote": "offsite", "bucket": "panel-backups"}, "config.bucket"),
        ({"remote": "offsite", "secret_key": "x"}, "config.secret_key"),
    ],
)
def test_wrong_settings_are_refused(api_as, settings, field):
    """DST-01, DST-15"""
    body = {"name": "offsite", "storage_type": "rclone", "config": settings}
    answer = api_as("admin", "POST", LIST_PATH, json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


def test_settings_are_changed_and_never_returned(api_as, create):
    """DST-01, DST-02, DST-15, DST-16"""
    path = create(remote="far-away", path_prefix="folder/below")
    answer = api_as("admin", "GET", path)
    assert (answer.json["data"]["storage_type"], "far-away" in answer.text) == ("rclone", False)
    assert api_as("admin", "PATCH", path, json={"config": {"path_prefix": ""}}).status_code == 200
    assert get_config() == {"remote": "far-away", "path_prefix": ""}
    answer = api_as("admin", "PATCH", path, json={"storage_type": "s3"})
    fields = ["config.access_key", "config.bucket", "config.endpoint", "config.secret_key"]
    assert (answer.status_code, sorted(answer.json["errors"])) == (422, fields)
    assert get_config() == {"remote": "far-away", "path_prefix": ""}


@pytest.mark.processes
def test_check_names_failing_step(api_as, create, cast, rclone_remotes, monkeypatch, tmp_path):
    """DST-20: the remote cannot be reached, is not there, loses its backups, or cannot be written to."""
    monkeypatch.setattr(waiting.time, "sleep", lambda _: run_queued_calls())
    folder = str(tmp_path / "remote").removeprefix("/")
    monkeypatch.chdir("/")  # paths of the remote `directory` begin there
    path = create(remote="directory", path_prefix=folder)

    def check(**config):
        api_as("admin", "PATCH", path, json={"config": config})
        data = api_as("admin", "POST", f"{path}/test").json["data"]
        assert data["passed"] == all(step["success"] for step in data["steps"])
        return [step["name"] for step in data["steps"]], data["steps"][-1]["message"]

    assert check() == (["reachability", "write_access"], None)
    assert not [file for file in (tmp_path / "remote").rglob("*") if file.is_file()]
    names, sentence = check(remote="unknown")
    assert names == ["reachability"]
    assert sentence.startswith("The storage cannot be used: rclone failed with code 1")
    (tmp_path / "file").write_text("not a folder")
    names, sentence = check(remote="directory", path_prefix=str(tmp_path / "file" / "below").removeprefix("/"))
    assert names == ["reachability", "write_access"]
    assert sentence.startswith("Nothing can be stored there: rclone failed")
    destination = session.query(BackupDestination).one()
    session.add(
        BackupRepository(
            destination=destination, account_id=cast.owner.id, key="key", initialized_at=cast.owner.created_at
        )
    )
    session.commit()
    expected = "The storage cannot be used: the stored backups are not there."
    assert check(path_prefix=folder) == (["reachability"], expected)
