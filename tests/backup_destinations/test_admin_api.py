"""Backup destinations in the admin API: local directories, whose settings are never returned."""

import json
from pathlib import Path

import pytest
from sqlalchemy import text

from panel.core.db import session
from panel.models import BackupDestination, BackupRepository, InstanceBackup
from panel.workflows import waiting
from tests.support.cast import UNKNOWN_ID
from worker.backups.targets import LocalTarget
from worker.tasks import backup_destinations as worker_tasks

LIST_PATH = "/api/v1/hypervisor/backup-storages"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "backups"


@pytest.fixture
def body(folder):
    return {"name": "backups-1", "storage_type": "local", "config": {"path": str(folder)}}


@pytest.fixture
def create(api_as, body):
    """Return a function that adds a destination and returns the path of its operations."""

    def add(**changes):
        answer = api_as("admin", "POST", LIST_PATH, json=body | changes)
        assert answer.status_code == 200, answer.text
        assert answer.json["data"].keys() == {"storage_id"}
        return f"/api/v1/hypervisor/backup-storage/{answer.json['data']['storage_id']}"

    return add


def test_destination_is_created_checked_and_listed(api_as, create, run_tasks, folder, cast):
    """DST-01, DST-17, DST-21"""
    path = create(bandwidth_limit=50)
    assert api_as("admin", "GET", path).json["data"]["status"] == "unknown"
    run_tasks()
    row = api_as("admin", "GET", path).json["data"]
    assert (row["name"], row["storage_type"], row["status"], row["bandwidth_limit"]) == (
        "backups-1",
        "local",
        "available",
        50,
    )
    assert (row["enabled"], row["all_hypervisors"], row["hypervisor_ids"]) == (True, True, [])
    assert 0 < row["free"] <= row["capacity"]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert api_as("admin", "GET", LIST_PATH).json["data"] == [row]
    assert api_as("admin", "GET", f"/api/v1/hypervisor/{cast.node.id}/backup-storages").json["data"] == [row]


def test_config_is_never_returned_and_is_encrypted(api_as, create, run_tasks, folder, cast):
    """DST-02"""
    path = create()
    answers = [
        api_as("admin", "GET", path),
        api_as("admin", "GET", LIST_PATH),
        api_as("admin", "PATCH", path, json={"name": "renamed"}),
        api_as("admin", "POST", f"{path}/test"),
        api_as("admin", "GET", f"/api/v1/hypervisor/{cast.node.id}/backup-storages"),
    ]
    for answer in answers:
        assert answer.status_code == 200
        assert "config" not in answer.text
        assert str(folder) not in answer.text
    assert str(folder) not in session.scalar(text("select config from backup_destinations"))


def test_destination_is_updated(api_as, create, run_tasks, folder):
    """DST-13, DST-18"""
    path = create()
    run_tasks()
    row = api_as("admin", "PATCH", path, json={"name": "second", "enabled": False, "bandwidth_limit": 0}).json["data"]
    assert (row["name"], row["enabled"], row["status"]) == ("second", False, "available")
    destination = session.query(BackupDestination).one()
    assert destination.config == {"path": str(folder)}, "other fields do not change the settings"
    row = api_as("admin", "PATCH", path, json={"config": {"path": "/proc/backups"}}).json["data"]
    assert row["status"] == "unknown"
    run_tasks()
    row = api_as("admin", "GET", path).json["data"]
    assert (row["status"], row["status_detail"][:28]) == ("unavailable", "The directory cannot be used")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"name": None}, "name"),
        ({"storage_type": "tape"}, "storage_type"),
        ({"storage_type": None}, "storage_type"),
        ({"config": {"path": "relative"}}, "config.path"),
        ({"config": {"path": "/a\n"}}, "config.path"),
        ({"config": {"path": 7}}, "config.path"),
        ({"config": {"path": "/a", "host": "b"}}, "config.host"),
        ({"config": "/a"}, "config"),
        ({"config": None}, "config"),
        ({"enabled": 1}, "enabled"),
        ({"bandwidth_limit": -1}, "bandwidth_limit"),
        ({"bandwidth_limit": "5"}, "bandwidth_limit"),
        ({"hypervisor_ids": ["0199c0a8-0000-7000-8000-000000000000"]}, "hypervisor_ids"),
        ({"hypervisor_ids": "all"}, "hypervisor_ids"),
        ({"status": "available"}, "status"),
    ],
)
def test_wrong_values_are_refused_and_change_nothing(api_as, create, body, change, field):
    """DST-01, DST-16"""
    answer = api_as("admin", "POST", LIST_PATH, json=body | change)
    assert (answer.status_code, find_fields(answer.json["errors"])) == (422, [field])
    path = create()
    before = api_as("admin", "GET", path).json
    answer = api_as("admin", "PATCH", path, json=change)
    assert (answer.status_code, find_fields(answer.json["errors"])) == (422, [field])
    assert api_as("admin", "GET", path).json == before


def find_fields(errors):
    """Return the names of the fields with errors."""
    return sorted(errors)


def test_required_fields(api_as, body):
    answer = api_as("admin", "POST", LIST_PATH, json=body | {"config": {}})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["config.path"])
    for name in body:
        answer = api_as("admin", "POST", LIST_PATH, json={key: value for key, value in body.items() if key != name})
        assert (answer.status_code, list(answer.json["errors"])) == (422, [name])


def test_names_are_unique(api_as, create, body):
    create()
    other = create(name="other")
    assert list(api_as("admin", "POST", LIST_PATH, json=body).json["errors"]) == ["name"]
    assert list(api_as("admin", "PATCH", other, json={"name": "backups-1"}).json["errors"]) == ["name"]
    assert api_as("admin", "PATCH", other, json={"name": "other"}).status_code == 200


def test_assigned_destination_precedes_and_stays_assigned(api_as, create, cast):
    common, own = create(), create(name="own", hypervisor_ids=[cast.node.id])
    path = f"/api/v1/hypervisor/{cast.node.id}/backup-storages"
    assert [row["name"] for row in api_as("admin", "GET", path).json["data"]] == ["own", "backups-1"]
    node = {"name": "n", "hypervisor_group_id": cast.location.id, "driver": "simulated", "uri": "simulated://second"}
    other = api_as("admin", "POST", "/api/v1/hypervisors", json=node).json["data"]["hypervisor_id"]
    api_as("admin", "PATCH", own, json={"hypervisor_ids": [other]})
    assert [row["name"] for row in api_as("admin", "GET", path).json["data"]] == ["backups-1"]
    assert api_as("admin", "DELETE", f"/api/v1/hypervisor/{other}").status_code == 200
    row = api_as("admin", "GET", own).json["data"]
    assert (row["all_hypervisors"], row["hypervisor_ids"]) == (False, []), "it is not open to all hypervisors now"
    assert api_as("admin", "PATCH", common, json={"hypervisor_ids": []}).json["data"]["all_hypervisors"] is True


def test_check_names_failing_step(api_as, create, folder, monkeypatch):
    """DST-20: a local directory has two steps."""
    path = create()
    data = api_as("admin", "POST", f"{path}/test").json["data"]
    assert (data["passed"], [step["name"] for step in data["steps"]]) == (True, ["reachability", "write_access"])
    (folder / "check").rename(folder / "away")
    (folder / "check").write_text("a file")
    data = api_as("admin", "POST", f"{path}/test").json["data"]
    assert (data["passed"], [step["success"] for step in data["steps"]]) == (False, [True, False])
    assert "Not a directory" in data["steps"][1]["message"]
    api_as("admin", "PATCH", path, json={"config": {"path": str(folder / "check" / "below")}})
    data = api_as("admin", "POST", f"{path}/test").json["data"]
    assert [(step["name"], step["success"]) for step in data["steps"]] == [("reachability", False)]


def test_check_notices_target_with_other_content(api_as, create, monkeypatch):
    path = create()
    monkeypatch.setattr(LocalTarget, "get", lambda *_: b"something else")
    data = api_as("admin", "POST", f"{path}/test").json["data"]
    assert [step["success"] for step in data["steps"]] == [True, False]


def test_check_without_worker_times_out(api_as, create, monkeypatch):
    path = create()
    monkeypatch.setattr(worker_tasks, "check_on_request", lambda _: None)
    times = iter(range(1000))
    monkeypatch.setattr(waiting.time, "sleep", lambda _: None)
    monkeypatch.setattr(waiting.time, "monotonic", lambda: next(times))
    answer = api_as("admin", "POST", f"{path}/test")
    assert (answer.status_code, answer.json["message"]) == (503, "All workers are busy. Try again in a minute.")


def test_old_check_does_not_overwrite_new_settings(api_as, create, run_tasks, folder, monkeypatch):
    """The settings change while a worker checks the earlier directory."""
    path = create()
    destination = session.query(BackupDestination).one()
    real = worker_tasks.check_storage

    def change_meanwhile(*settings, **options):
        destination.config = {"path": "/srv/other"}
        session.commit()
        return real(*settings, **options)

    monkeypatch.setattr(worker_tasks, "check_storage", change_meanwhile)
    worker_tasks.check(destination.id)
    assert api_as("admin", "GET", path).json["data"]["checked_at"] is None


def test_missing_backups_make_destination_unavailable(api_as, create, cast, folder):
    """An empty directory, because its disk is not mounted, is not taken for a new destination."""
    path = create()
    repository = BackupRepository(
        destination=session.query(BackupDestination).one(),
        account_id=cast.owner.id,
        key="key",
        initialized_at=cast.owner.created_at,
    )
    session.add(repository)
    session.commit()
    data = api_as("admin", "POST", f"{path}/test").json["data"]
    assert (data["passed"], data["steps"][0]["message"]) == (
        False,
        "The directory cannot be used: the stored backups are not there.",
    )
    (folder / repository.id).mkdir(parents=True)
    assert api_as("admin", "POST", f"{path}/test").json["data"]["passed"] is True


def test_periodic_check_covers_enabled_destinations(api_as, create, folder):
    on, off = create(), create(name="off", enabled=False)
    worker_tasks.check_all()
    assert api_as("admin", "GET", on).json["data"]["status"] == "available"
    assert api_as("admin", "GET", off).json["data"]["status"] == "unknown"


@pytest.fixture
def repository(create, cast):
    """The owner's repository in a new destination."""
    create()
    destination = session.query(BackupDestination).one()
    repository = BackupRepository(destination=destination, account_id=cast.owner.id, key="secret text")
    session.add(repository)
    session.commit()
    return repository


def test_used_destination_is_not_deleted(api_as, repository, cast):
    assert "secret text" not in session.scalar(text("select key from backup_repositories"))
    path = f"/api/v1/hypervisor/backup-storage/{repository.destination_id}"
    names = {"recorded_name": "Shop", "recorded_hostname": "shop", "name": "nightly", "instance_id": UNKNOWN_ID}
    backup = InstanceBackup(account_id=cast.owner.id, repository=repository, backup_type="full", **names)
    backup.destination = repository.destination
    session.add(backup)
    session.commit()
    answer = api_as("admin", "DELETE", path)
    assert (answer.status_code, answer.json["reason"]) == (409, "destination_in_use")
    assert session.query(BackupRepository).count() == 1
    session.delete(backup)
    session.commit()
    assert api_as("admin", "DELETE", path).status_code == 200
    for method in ("GET", "PATCH", "DELETE"):
        assert api_as("admin", method, path, json={} if method == "PATCH" else None).status_code == 404
    assert api_as("admin", "POST", f"{path}/test").status_code == 404


def test_destination_without_backups_is_deleted_with_its_repositories(api_as, repository, folder, run_tasks):
    run_tasks()
    stored = folder / repository.id / "stored"
    stored.parent.mkdir()
    stored.touch()
    path = f"/api/v1/hypervisor/backup-storage/{repository.destination_id}"
    assert api_as("admin", "DELETE", path).status_code == 200
    assert session.query(BackupRepository).count() == session.query(BackupDestination).count() == 0
    assert stored.exists(), "what is stored there stays"


def test_list_needs_a_constant_number_of_queries(api_as, create, queries, cast):
    create(hypervisor_ids=[cast.node.id])

    def count():
        queries.clear()
        api_as("admin", "GET", LIST_PATH)
        return len(queries)

    before = count()
    for number in range(3):
        create(name=f"n{number}", hypervisor_ids=[cast.node.id])
    assert count() == before


def test_only_operators_reach_destinations(api_as, create):
    path = create()
    for caller in ("owner", "billing"):
        assert api_as(caller, "GET", path).status_code in (401, 403)
        assert api_as(caller, "GET", LIST_PATH).status_code in (401, 403)


def test_document_offers_kinds_that_work():
    document = json.loads((Path(__file__).parents[2] / "api" / "openapi" / "admin.json").read_text())
    schema = document["components"]["schemas"]["BackupDestinationIn"]
    assert schema["properties"]["storage_type"]["enum"] == ["local", "s3", "rclone", "rbs"]
