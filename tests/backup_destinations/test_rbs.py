"""Destinations on a remote backup server: settings, test, fingerprint."""

import pytest

from panel.core.db import session
from panel.models import BackupDestination
from panel.workflows import fingerprint_probe, waiting
from tests.support.ports import find_free_port
from tests.support.rbs_server import SECRET, rbs_server  # noqa: F401  (fixture)
from tests.support.task_queue import run_queued_calls

STORAGES = "/api/v1/hypervisor/backup-storages"
STEPS = ["reachability", "authentication", "namespace", "privileges"]


@pytest.fixture(autouse=True)
def run_tasks_while_waiting(monkeypatch):
    """Run queued tasks while a request waits for a result."""
    monkeypatch.setattr(waiting.time, "sleep", lambda _: run_queued_calls())


@pytest.fixture
def rbs_config(rbs_server):
    return rbs_server.config


@pytest.fixture
def create(api_as):
    def create(rbs_config, name="pbs-1"):
        return api_as("admin", "POST", STORAGES, json={"name": name, "storage_type": "rbs", "config": rbs_config})

    return create


@pytest.fixture
def path(create, rbs_config, run_tasks):
    answer = create(rbs_config)
    assert answer.status_code == 200, answer.text
    run_tasks()
    return f"/api/v1/hypervisor/backup-storage/{answer.json['data']['storage_id']}"


def get_config():
    return session.query(BackupDestination).populate_existing().one().config


def run_check(api_as, path):
    """Return the names of the steps, whether all succeeded, and the last message."""
    data = api_as("admin", "POST", f"{path}/test").json["data"]
    assert data["passed"] == all(step["success"] for step in data["steps"])
    return [step["name"] for step in data["steps"]], data["passed"], data["steps"][-1]["message"]


@pytest.mark.parametrize("name", ["host", "datastore", "auth_id", "token_secret", "fingerprint"])
def test_required_setting_is_refused_without(create, rbs_config, name):
    """DST-03, DST-05, DST-08, DST-09"""
    del rbs_config[name]
    answer = create(rbs_config)
    assert answer.status_code == 422
    assert list(answer.json["errors"]) == [f"config.{name}"]


@pytest.mark.parametrize(
    ("auth_id", "is_accepted"), [("root@pam", False), ("root!t", False), ("a@b!c", True), ("a b@pbs!c", False)]
)
def test_auth_id_names_user_realm_and_token(create, rbs_config, auth_id, is_accepted):
    """DST-07"""
    answer = create(rbs_config | {"auth_id": auth_id})
    assert answer.status_code == (200 if is_accepted else 422)
    if not is_accepted:
        assert "auth_id" in str(answer.json["errors"])


@pytest.mark.parametrize(
    "change",
    [
        {"fingerprint": "AB:CD"},
        {"fingerprint": "x" * 64},
        {"port": 0},
        {"port": "8007"},
        {"host": "https://pbs"},
        {"host": "pbs/path"},
        {"datastore": "../etc"},
        {"namespace": "/panel"},
        {"namespace": "a/b/c/d/e/f/g/h"},
        {"verify_after_backup": 1},
        {"fleecing_storage": 1},
        {"path": "/srv"},
    ],
)
def test_malformed_setting_is_refused(create, rbs_config, change):
    answer = create(rbs_config | change)
    assert answer.status_code == 422
    assert next(iter(change)) in str(answer.json["errors"])


def test_port_defaults_to_8007(create, rbs_config, run_tasks, monkeypatch):
    """DST-04, DST-06"""
    ports = []
    monkeypatch.setattr("worker.backups.rbs.api.connect", lambda host, port, *_: ports.append(port) or 1 / 0)
    del rbs_config["port"]
    assert create(rbs_config).status_code == 200
    with pytest.raises(ZeroDivisionError):
        run_tasks()
    assert ports == [8007]


def test_optional_settings_are_stored_and_nothing_is_returned(api_as, create, rbs_config, run_tasks):
    """DST-06, DST-11, DST-17"""
    options = {
        "namespace": "panel",
        "verify_after_backup": True,
        "rbs_managed_retention": True,
        "live_restore": True,
        "fleecing_storage": "local-lvm",
    }
    answer = create(rbs_config | options)
    assert answer.status_code == 200
    run_tasks()
    assert get_config() == rbs_config | options
    path = f"/api/v1/hypervisor/backup-storage/{answer.json['data']['storage_id']}"
    for answer in (api_as("admin", "GET", path), api_as("admin", "GET", STORAGES)):
        assert "config" not in answer.text
        assert SECRET not in answer.text


@pytest.mark.parametrize("secret", [{}, {"token_secret": ""}, {"token_secret": "   "}])
def test_other_token_requires_its_secret(api_as, path, rbs_config, secret):
    """DST-12"""
    answer = api_as("admin", "PATCH", path, json={"config": {"auth_id": "other@pbs!t", **secret}})
    assert answer.status_code == 422
    assert list(answer.json["errors"]) == ["config.token_secret"]
    assert get_config() == rbs_config


def test_secret_stays_without_another_token(api_as, path, rbs_config, rbs_server):
    """DST-13"""
    for body in (
        {"name": "pbs-2"},
        {"config": {"auth_id": rbs_config["auth_id"]}},
        {"config": {"namespace": "panel", "token_secret": " "}},
    ):
        assert api_as("admin", "PATCH", path, json=body).status_code == 200
        assert run_check(api_as, path) == (STEPS, True, None)
    assert get_config() == rbs_config | {"namespace": "panel"}


def test_kind_changes_with_complete_settings_only(api_as, folder_destination, rbs_config):
    """DST-16"""
    incomplete = {name: value for name, value in rbs_config.items() if name != "host"}
    before = get_config()
    for body in ({"storage_type": "rbs"}, {"storage_type": "rbs", "config": incomplete}):
        answer = api_as("admin", "PATCH", folder_destination, json=body)
        assert answer.status_code == 422
        assert "config.host" in answer.json["errors"]
        assert get_config() == before
        assert api_as("admin", "GET", folder_destination).json["data"]["storage_type"] == "local"
    body = {"storage_type": "rbs", "config": rbs_config}
    assert api_as("admin", "PATCH", folder_destination, json=body).json["data"]["storage_type"] == "rbs"
    assert get_config() == rbs_config


@pytest.fixture
def folder_destination(api_as, tmp_path, run_tasks):
    body = {"name": "local", "storage_type": "local", "config": {"path": str(tmp_path / "backups")}}
    answer = api_as("admin", "POST", STORAGES, json=body)
    run_tasks()
    return f"/api/v1/hypervisor/backup-storage/{answer.json['data']['storage_id']}"


def test_new_destination_is_checked(api_as, path):
    """DST-20"""
    row = api_as("admin", "GET", path).json["data"]
    assert (row["status"], row["status_detail"]) == ("available", None)
    assert (row["capacity"], row["free"]) == (1000 * 1024**3, 600 * 1024**3)
    assert run_check(api_as, path) == (STEPS, True, None)


def test_other_certificate_fails_the_test(api_as, path, rbs_server):
    """DST-10, DST-20"""
    rbs_server.requests.clear()
    rbs_server.replace_certificate()
    steps, passed, text = run_check(api_as, path)
    assert (steps, passed) == (STEPS[:1], False)
    assert text.startswith("The server is not the one whose fingerprint is stored")
    assert rbs_server.requests == [], "the token was not sent"
    assert api_as("admin", "GET", path).json["data"]["status"] == "unavailable"


@pytest.mark.parametrize(
    ("change", "steps", "reason"),
    [
        ({"token_secret": "wrong"}, 2, "does not accept the API token: 401"),
        ({"namespace": "missing"}, 3, "datastore or namespace cannot be used: 404 namespace not found"),
    ],
)
def test_wrong_setting_fails_its_step(api_as, path, change, steps, reason):
    """DST-20"""
    assert api_as("admin", "PATCH", path, json={"config": change}).status_code == 200
    names, passed, text = run_check(api_as, path)
    assert (names, passed) == (STEPS[:steps], False)
    assert reason in text


@pytest.mark.parametrize(
    ("privileges", "settings", "missing"),
    [
        ({"Datastore.Audit"}, {}, "Datastore.Backup, Datastore.Modify or Datastore.Prune"),
        ({"Datastore.Backup"}, {}, "Datastore.Modify or Datastore.Prune"),
        ({"Datastore.Backup"}, {"rbs_managed_retention": True}, None),
        ({"Datastore.Backup", "Datastore.Modify"}, {}, None),
    ],
)
def test_privileges_are_named(api_as, path, rbs_server, privileges, settings, missing):
    """DST-20"""
    rbs_server.tokens[rbs_server.config["auth_id"]][1]["/datastore/backups"] = privileges
    api_as("admin", "PATCH", path, json={"config": settings})
    names, passed, text = run_check(api_as, path)
    assert (names, passed) == (STEPS, missing is None)
    assert text == (missing and f"The API token lacks privileges: {missing}.")


def test_unreachable_server_fails_the_first_step(api_as, path, rbs_server):
    """DST-20"""
    rbs_server.stop()
    steps, passed, text = run_check(api_as, path)
    assert (steps, passed) == (STEPS[:1], False)
    assert text.startswith("The server cannot be reached")


def test_fingerprint_is_read_without_credentials(api_as, rbs_server):
    """DST-19"""
    body = {"host": "127.0.0.1", "port": rbs_server.port}
    answer = api_as("admin", "POST", f"{STORAGES}/fingerprint", json=body)
    assert (answer.status_code, answer.json["data"]) == (200, {"fingerprint": rbs_server.fingerprint})
    assert rbs_server.requests == []


def test_fingerprint_of_unreachable_server_is_refused(api_as):
    answer = api_as("admin", "POST", f"{STORAGES}/fingerprint", json={"host": "127.0.0.1", "port": find_free_port()})
    assert answer.status_code == 422
    assert "cannot be reached" in answer.json["errors"]["host"][0]


def test_fingerprint_requires_a_worker(api_as, monkeypatch):
    monkeypatch.setattr(fingerprint_probe, "PROBE_TIMEOUT_SECONDS", -1)
    assert api_as("admin", "POST", f"{STORAGES}/fingerprint", json={"host": "pbs.example.com"}).status_code == 503


def test_fingerprint_requires_the_permission_to_write(api_as):
    assert api_as("owner", "POST", f"{STORAGES}/fingerprint", json={"host": "pbs.example.com"}).status_code == 403
