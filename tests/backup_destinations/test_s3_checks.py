"""The check of a backup destination in a bucket of a real S3 server."""

import pytest

from panel.core.db import session
from panel.models import BackupDestination, BackupRepository
from panel.workflows import waiting
from tests.support.ports import find_free_port
from tests.support.s3_server import LOCKED_BUCKET
from tests.support.task_queue import run_queued_calls
from worker.backups.keys import RepositoryKey
from worker.backups.repository import Repository
from worker.tasks import backup_destination_checks
from worker.tasks.backup_targets import build_target

pytestmark = pytest.mark.processes
STEPS = ["reachability", "authentication", "bucket", "write_access"]


@pytest.fixture(autouse=True)
def run_tasks_while_waiting(monkeypatch):
    """Run queued tasks while a request waits for a result."""
    monkeypatch.setattr(waiting.time, "sleep", lambda _: run_queued_calls())


@pytest.fixture
def bucket_config(s3_server, s3_folder):
    return {
        "endpoint": s3_server.endpoint,
        "bucket": "backups",
        "path_prefix": f"{s3_folder}below",
        "access_key": "backups",
        "secret_key": "backups-secret",
    }


@pytest.fixture
def path(create_bucket_destination, bucket_config, run_tasks):
    path = create_bucket_destination(bucket_config)
    run_tasks()
    return path


def run_check(api_as, path):
    """Return the names and results of the steps, and the last message."""
    data = api_as("admin", "POST", f"{path}/test").json["data"]
    assert data["passed"] == all(step["success"] for step in data["steps"])
    return [step["name"] for step in data["steps"]], data["passed"], data["steps"][-1]["message"]


def test_new_destination_is_checked(api_as, path, s3_server, s3_folder):
    """DST-01, DST-20"""
    row = api_as("admin", "GET", path).json["data"]
    assert (row["status"], row["status_detail"], row["capacity"], row["free"]) == ("available", None, None, None)
    assert run_check(api_as, path) == (STEPS, True, None)
    assert "Contents" not in s3_server.operator.list_objects_v2(Bucket="backups", Prefix=s3_folder), "nothing is left"


@pytest.mark.parametrize(
    ("change", "step", "reason"),
    [
        ({"endpoint": f"http://127.0.0.1:{find_free_port()}"}, "reachability", "no connection"),
        ({"endpoint": "http://a..b"}, "reachability", "not a valid URL"),
        ({"access_key": "unknown", "secret_key": "x"}, "authentication", "InvalidAccessKeyId"),
        ({"secret_key": "wrong"}, "authentication", "SignatureDoesNotMatch"),
        ({"bucket": "missing-backups"}, "bucket", "there is no such bucket"),
        ({"access_key": "reader", "secret_key": "reader-secret"}, "write_access", "AccessDenied"),
    ],
)
def test_check_names_failing_step(api_as, path, bucket_config, change, step, reason):
    """DST-20, DST-02"""
    assert api_as("admin", "PATCH", path, json={"config": change}).status_code == 200
    names, passed, sentence = run_check(api_as, path)
    assert (names, passed) == (STEPS[: STEPS.index(step) + 1], False)
    assert reason in sentence
    row = api_as("admin", "GET", path)
    assert (row.json["data"]["status"], row.json["data"]["status_detail"]) == ("unavailable", sentence)
    for value in (bucket_config | change).values():
        assert f"{value}." not in row.text.replace(reason, "")


def test_slow_server_fails_the_check(api_as, path, s3_proxy, monkeypatch):
    monkeypatch.setitem(backup_destination_checks.BUCKET_LIMITS, "read_timeout", 0.2)
    api_as("admin", "PATCH", path, json={"config": {"endpoint": s3_proxy.endpoint}})
    assert run_check(api_as, path) == (STEPS, True, None)
    s3_proxy.set_fault("slow")
    assert run_check(api_as, path) == (
        ["reachability"],
        False,
        "The storage cannot be used: no answer in time.",
    )


def test_changed_content_fails_the_check(api_as, path, s3_proxy):
    api_as("admin", "PATCH", path, json={"config": {"endpoint": s3_proxy.endpoint}})
    s3_proxy.set_fault("changed", "GET", "/check/")
    names, passed, sentence = run_check(api_as, path)
    assert (names, passed) == (STEPS, False)
    assert "other content than was stored" in sentence


def test_object_lock_is_reported(api_as, path):
    config = {"bucket": LOCKED_BUCKET, "access_key": "operator", "secret_key": "operator-secret"}
    api_as("admin", "PATCH", path, json={"config": config})
    names, passed, sentence = run_check(api_as, path)
    assert (names, passed) == (STEPS, True)
    assert "The bucket has object lock" in sentence
    assert api_as("admin", "GET", path).json["data"]["status_detail"] is None


def test_missing_object_lock_is_reported_where_copies_are_stored(
    api_as, path, create_bucket_destination, bucket_config
):
    first = create_bucket_destination(bucket_config | {"path_prefix": "first"}, name="first")
    assert run_check(api_as, path) == (STEPS, True, None)
    assert api_as("admin", "PATCH", first, json={"copy_to_id": path.rsplit("/", 1)[1]}).status_code == 200
    names, passed, sentence = run_check(api_as, path)
    assert (names, passed) == (STEPS, True)
    assert "The bucket has no object lock" in sentence


def test_missing_backups_make_destination_unavailable(api_as, path, cast, bucket_config):
    """An empty folder is not taken for a new destination."""
    key = RepositoryKey.generate()
    repository = BackupRepository(
        destination=session.query(BackupDestination).one(),
        account_id=cast.owner.id,
        key=key.to_text(),
        initialized_at=cast.owner.created_at,
    )
    session.add(repository)
    session.commit()
    expected = "The bucket cannot be used: the stored backups are not there."
    assert run_check(api_as, path) == (STEPS[:3], False, expected)
    Repository.create(build_target("s3", bucket_config, repository.id), key).close()
    assert run_check(api_as, path) == (STEPS, True, None)
