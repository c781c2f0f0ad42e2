"""Destinations and settings of backups of the installation in the admin API."""

import pytest
from sqlalchemy import text

from panel.core.db import session
from panel.models import BackupDestination
from panel.services import backup_destinations
from tests.installation_backups.routes import DESTINATIONS_PATH, PASSPHRASE, SETTINGS_PATH

INSTANCE_DESTINATIONS_PATH = "/api/v1/hypervisor/backup-storages"


@pytest.fixture
def path(destination):
    return f"/api/v1/backups/destination/{destination['id']}"


def test_destination_is_checked_and_hidden_from_instances(api_as, call, destination, path, cast, folder):
    row = call("GET", DESTINATIONS_PATH)[0]
    assert (row["name"], row["storage_type"], row["status"], row["enabled"]) == ("offsite", "local", "available", True)
    assert str(folder) not in api_as("admin", "GET", DESTINATIONS_PATH).text
    assert call("GET", INSTANCE_DESTINATIONS_PATH) == []
    assert call("GET", f"/api/v1/hypervisor/{cast.node.id}/backup-storages") == []
    assert backup_destinations.find_for_hypervisor(cast.node) is None, "customers' backups never go there"
    for method in ("GET", "PATCH", "DELETE"):
        own = f"/api/v1/hypervisor/backup-storage/{destination['id']}"
        assert api_as("admin", method, own, json={} if method == "PATCH" else None).status_code == 404


def test_destination_of_instances_is_not_offered(api_as, call):
    body = {"name": "b", "storage_type": "local", "config": {"path": "/srv/backups"}}
    other = call("POST", INSTANCE_DESTINATIONS_PATH, **body)["storage_id"]
    assert call("GET", DESTINATIONS_PATH) == []
    for method, end in (("PUT", ""), ("DELETE", ""), ("POST", "/test")):
        answer = api_as("admin", method, f"/api/v1/backups/destination/{other}{end}", json={})
        assert answer.status_code == 404
    answer = api_as("admin", "PUT", SETTINGS_PATH, json={"destination_id": other})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["destination_id"])


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"storage_type": "rbs"}, "storage_type"),
        ({"config": {"path": "relative"}}, "config.path"),
        ({"config": {"path": "/a", "bucket": "abc"}}, "config.bucket"),
        ({"hypervisor_ids": []}, "hypervisor_ids"),
        ({"bandwidth_limit": 5}, "bandwidth_limit"),
        ({"purpose": "instances"}, "purpose"),
    ],
)
def test_wrong_destinations_are_refused(api_as, call, path, change, field):
    body = {"name": "second", "storage_type": "local", "config": {"path": "/srv/backups"}} | change
    answer = api_as("admin", "POST", DESTINATIONS_PATH, json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])
    answer = api_as("admin", "PUT", path, json=change)
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


def test_destination_is_updated_and_tested(call, path, folder, tmp_path, run_tasks):
    row = call("PUT", path, name="second", config={"path": str(tmp_path / "other")})
    assert (row["name"], row["status"]) == ("second", "unknown")
    run_tasks()
    assert call("GET", DESTINATIONS_PATH)[0]["status"] == "available"
    (tmp_path / "file").touch()
    call("PUT", path, config={"path": str(tmp_path / "file" / "below")})
    data = call("POST", f"{path}/test")
    assert (data["passed"], [step["success"] for step in data["steps"]]) == (False, [False])


def test_used_destination_is_not_deleted(api_as, call, path, back_up, run_tasks):
    answer = api_as("admin", "DELETE", path)
    assert (answer.status_code, answer.json["reason"]) == (409, "destination_in_use"), "the settings name it"
    run = back_up()
    call("PUT", SETTINGS_PATH, destination_id=None)
    answer = api_as("admin", "DELETE", path)
    assert (answer.status_code, answer.json["reason"]) == (409, "destination_in_use"), "it has a run"
    call("DELETE", f"/api/v1/backups/run/{run['id']}")
    run_tasks()
    call("DELETE", path)
    assert session.query(BackupDestination).count() == 0


def test_settings_are_stored(api_as, call, destination):
    call("PUT", SETTINGS_PATH, destination_id=None)
    settings = call("PUT", SETTINGS_PATH, frequency="weekly", day=1, time="04:15", retention_count=3)
    expected = {"enabled": False, "destination_id": None, "frequency": "weekly", "day": 1, "time": "04:15"}
    assert settings.items() >= expected.items()
    assert (settings["retention_count"], settings["next_run_at"], settings["has_passphrase"]) == (3, None, True)
    settings = call("PUT", SETTINGS_PATH, enabled=True, destination_id=destination["id"])
    assert settings["next_run_at"][10:] == "T04:15:00Z"
    assert call("GET", SETTINGS_PATH) == settings
    assert call("PUT", SETTINGS_PATH, frequency="daily")["day"] is None


def test_settings_before_first_change(call):
    settings = call("GET", SETTINGS_PATH)
    assert (settings["enabled"], settings["frequency"], settings["time"]) == (False, "daily", "02:00")
    assert (settings["retention_count"], settings["has_passphrase"]) == (14, False)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"frequency": "hourly"}, "frequency"),
        ({"frequency": "weekly"}, "day"),
        ({"time": "24:00"}, "time"),
        ({"day": 7}, "day"),
        ({"frequency": "daily", "day": 3}, "day"),
        ({"retention_count": 0}, "retention_count"),
        ({"passphrase": "short"}, "passphrase"),
        ({"passphrase": None}, "passphrase"),
        ({"enabled": True}, "destination_id"),
        ({"next_run_at": None}, "next_run_at"),
    ],
)
def test_wrong_settings_are_refused(api_as, call, change, field):
    answer = api_as("admin", "PUT", SETTINGS_PATH, json=change)
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


def test_schedule_requires_passphrase(api_as, add_destination):
    body = {"enabled": True, "destination_id": add_destination()["id"]}
    answer = api_as("admin", "PUT", SETTINGS_PATH, json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["passphrase"])


def test_passphrase_is_encrypted_and_never_returned(api_as, call, destination):
    assert PASSPHRASE not in session.scalar(text("select passphrase from installation_backup_settings"))
    answers = [api_as("admin", "GET", SETTINGS_PATH), api_as("admin", "PUT", SETTINGS_PATH, json={"time": "01:00"})]
    assert all(PASSPHRASE not in answer.text for answer in answers)
