"""A directory for archives of the installation, and helpers for its runs."""

import sqlite3
from contextlib import closing

import pytest

from panel.backups import archive, databases
from tests.installation_backups.routes import DESTINATIONS_PATH, PASSPHRASE, SETTINGS_PATH, TRIGGER_PATH
from tests.support.backups import inline_workers, no_workers  # noqa: F401  (fixtures)


@pytest.fixture(autouse=True)
def fast_key_derivation(monkeypatch):
    monkeypatch.setattr(archive, "SCRYPT_COST", {"n": 2**14, "r": 8, "p": 1})


@pytest.fixture(autouse=True)
def database_copy(monkeypatch):
    """Copy a small database instead of that of the test, whose tables were created without migrations."""

    def copy_database(_config, target):
        with closing(sqlite3.connect(target)) as copy:
            copy.execute("create table alembic_version (version_num text)")
            copy.execute("insert into alembic_version values ('0001')")
            copy.execute("create table content (data blob)")
            copy.execute("insert into content values (randomblob(1000000))")
            copy.commit()
        return databases.inspect_sqlite(target)

    monkeypatch.setattr(databases, "copy_database", copy_database)
    monkeypatch.setattr(databases, "count_dumped_rows", lambda file: databases.inspect_sqlite(file)[1])


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "archives"


@pytest.fixture
def call(api_as):
    """Return a function that makes an operator's call and returns its data."""

    def request(method, path, **body):
        answer = api_as("admin", method, path, json=body if method != "GET" else None)
        assert answer.status_code == 200, answer.text
        return answer.json.get("data")

    return request


@pytest.fixture
def add_destination(call, folder, run_tasks):
    """Return a function that adds a destination and returns its row."""

    def add(name="offsite", storage_type="local", **config):
        config = config or {"path": str(folder)}
        row = call("POST", DESTINATIONS_PATH, name=name, storage_type=storage_type, config=config)
        run_tasks()
        return row

    return add


@pytest.fixture
def destination(add_destination, call):
    """A destination, which the settings name, with a passphrase."""
    row = add_destination()
    call("PUT", SETTINGS_PATH, destination_id=row["id"], passphrase=PASSPHRASE)
    return row


@pytest.fixture
def back_up(call, run_tasks):
    """Return a function that makes a backup and returns its run."""

    def start(**body):
        run = call("POST", TRIGGER_PATH, **body)
        assert run["status"] == "queued"
        run_tasks()
        return call("GET", f"/api/v1/backups/run/{run['id']}")

    return start
