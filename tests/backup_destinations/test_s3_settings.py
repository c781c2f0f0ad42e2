"""Settings of backup destinations in buckets: required, write-only, and all or nothing."""

import pytest
from sqlalchemy import text

from panel.core.db import session
from panel.models import AuditEntry, BackupDestination

LIST_PATH = "/api/v1/hypervisor/backup-storages"
CONFIG = {
    "endpoint": "https://s3.example.com",
    "bucket": "panel-backups",
    "access_key": "BACKUPKEY",
    "secret_key": "the-secret-text",
}


@pytest.fixture
def path(create_bucket_destination):
    return create_bucket_destination(CONFIG | {"path_prefix": "a/b", "region": "eu-1", "path_style": False})


def get_config():
    return session.query(BackupDestination).populate_existing().one().config


def patch_config(api_as, destination_path, **changes):
    """Change settings; return the status and the fields with errors."""
    answer = api_as("admin", "PATCH", destination_path, json={"config": changes})
    return answer.status_code, sorted(answer.json.get("errors", ()))


def test_settings_are_stored_encrypted_and_never_returned(api_as, path, cast):
    """DST-01, DST-02, DST-15"""
    assert get_config() == CONFIG | {"path_prefix": "a/b", "region": "eu-1", "path_style": False}
    row = api_as("admin", "GET", path).json["data"]
    assert (row["storage_type"], row["status"], row["capacity"], row["free"]) == ("s3", "unknown", None, None)
    answers = [
        api_as("admin", "GET", path),
        api_as("admin", "GET", LIST_PATH),
        api_as("admin", "PATCH", path, json={"config": {"secret_key": "another-secret-text"}}),
        api_as("admin", "GET", f"/api/v1/hypervisor/{cast.node.id}/backup-storages"),
    ]
    records = " ".join(str(vars(entry)) for entry in session.query(AuditEntry))
    stored = session.scalar(text("select config from backup_destinations"))
    for shown in (*(answer.text for answer in answers), records, stored):
        for value in ("secret-text", "BACKUPKEY", "s3.example.com", "panel-backups", "a/b"):
            assert value not in shown


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"endpoint": "s3.example.com"}, ["config.endpoint"]),
        ({"endpoint": "ftp://s3.example.com"}, ["config.endpoint"]),
        ({"endpoint": "https://key:secret@s3.example.com"}, ["config.endpoint"]),
        ({"endpoint": "https://s3.example.com?x=1"}, ["config.endpoint"]),
        ({"bucket": "Upper"}, ["config.bucket"]),
        ({"bucket": "a/b"}, ["config.bucket"]),
        ({"path_prefix": "/a"}, ["config.path_prefix"]),
        ({"path_prefix": "a/../b"}, ["config.path_prefix"]),
        ({"path_prefix": "a/"}, ["config.path_prefix"]),
        ({"region": ""}, ["config.region"]),
        ({"path_style": 1}, ["config.path_style"]),
        ({"access_key": "a b", "secret_key": "c"}, ["config.access_key"]),
        ({"access_key": "", "secret_key": "c"}, ["config.access_key"]),
        ({"secret_key": 7}, ["config.secret_key"]),
        ({"secret_key": None}, ["config.secret_key"]),
        ({"path": "/srv/backups"}, ["config.path"]),
        ({"host": "x"}, ["config.host"]),
    ],
)
def test_wrong_settings_are_refused_and_change_nothing(api_as, path, change, fields):
    answer = api_as("admin", "POST", LIST_PATH, json={"name": "n", "storage_type": "s3", "config": CONFIG | change})
    assert (answer.status_code, sorted(answer.json["errors"])) == (422, fields)
    before = get_config()
    assert patch_config(api_as, path, **change) == (422, fields)
    assert get_config() == before


@pytest.mark.parametrize("name", CONFIG)
def test_required_settings(api_as, name):
    """DST-15"""
    config = {key: value for key, value in CONFIG.items() if key != name}
    answer = api_as("admin", "POST", LIST_PATH, json={"name": "n", "storage_type": "s3", "config": config})
    assert (answer.status_code, list(answer.json["errors"])) == (422, [f"config.{name}"])


@pytest.mark.parametrize("secret", [{}, {"secret_key": ""}, {"secret_key": "  "}])
def test_new_access_key_needs_its_secret(api_as, path, secret):
    """DST-14, DST-13"""
    before = get_config()
    assert patch_config(api_as, path, access_key="OTHERKEY", **secret) == (422, ["config.secret_key"])
    assert get_config() == before
    assert patch_config(api_as, path, access_key="BACKUPKEY", bucket="other", **secret) == (200, [])
    assert get_config() == before | {"bucket": "other"}
    assert patch_config(api_as, path, access_key="OTHERKEY", secret_key="other") == (200, [])
    assert get_config() == before | {"bucket": "other", "access_key": "OTHERKEY", "secret_key": "other"}


def test_blank_secret_is_refused_in_a_new_destination(api_as):
    config = CONFIG | {"secret_key": " "}
    answer = api_as("admin", "POST", LIST_PATH, json={"name": "n", "storage_type": "s3", "config": config})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["config.secret_key"])


def test_change_of_kind_is_all_or_nothing(api_as, path):
    """DST-16"""
    before = get_config()
    for change, fields in (
        ({"storage_type": "local"}, ["config.path"]),
        ({"storage_type": "local", "config": {"bucket": "b-1"}}, ["config.bucket", "config.path"]),
        ({"storage_type": "tape"}, ["storage_type"]),
    ):
        answer = api_as("admin", "PATCH", path, json=change | {"name": "renamed"})
        assert (answer.status_code, sorted(answer.json["errors"])) == (422, fields)
        row = api_as("admin", "GET", path).json["data"]
        assert (row["name"], row["storage_type"], get_config()) == ("bucket-1", "s3", before)
    answer = api_as("admin", "PATCH", path, json={"storage_type": "local", "config": {"path": "/srv/backups"}})
    assert (answer.json["data"]["storage_type"], get_config()) == ("local", {"path": "/srv/backups"})
    answer = api_as("admin", "PATCH", path, json={"storage_type": "s3", "config": {"bucket": "panel-backups"}})
    fields = ["config.access_key", "config.endpoint", "config.secret_key"]
    assert (answer.status_code, sorted(answer.json["errors"])) == (422, fields), "no setting of before is used again"
    assert get_config() == {"path": "/srv/backups"}
