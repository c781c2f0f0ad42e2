"""Backups of a running panel that are restored on another machine (F3)."""

import json
import sqlite3
from pathlib import Path

import pytest

from panel.core.data_files import find_exposed
from tests.support import postgres
from tests.support.panel_processes import Customer, Installation
from tests.support.waiting import wait_until

pytestmark = pytest.mark.processes

PASSPHRASE = "correct horse battery staple"


@pytest.fixture
def backup_arguments(tmp_path_factory):
    file = tmp_path_factory.mktemp("operator") / "passphrase"
    file.write_text(PASSPHRASE + "\n")
    return file.with_name("panel.backup"), ("--passphrase-file", str(file))


def test_backup_restores_panel_on_another_machine(installation, customer, backup_arguments, tmp_path_factory):
    file, passphrase = backup_arguments
    installation.start_all()
    instance, task = customer.deploy()
    customer.wait_for_task(task)
    output = installation.run_panel("backup", "create", str(file), *passphrase)
    assert "simulated.qcow2  sha256" in output
    assert file.stat().st_mode & 0o777 == 0o600
    secret_key = (installation.data_dir / "secret_key").read_bytes()
    assert secret_key not in file.read_bytes()
    assert "is valid" in installation.run_panel("backup", "verify", str(file), *passphrase)
    fetched = back_up_to_destination(installation, file.parent)
    assert "is valid" in installation.run_panel("backup", "verify", str(fetched), *passphrase)
    assert secret_key not in fetched.read_bytes()
    assert "is already running" in installation.run_panel("backup", "restore", str(file), *passphrase, status=1)
    installation.kill_processes()

    target = Installation(tmp_path_factory.mktemp("other"), PANEL_WEB_WORKERS="1", PANEL_WORKERS="1")
    try:
        restored = target.run_panel("backup", "restore", str(fetched), *passphrase)
        assert "Copy to" in restored
        assert (target.data_dir / "secret_key").read_bytes() == secret_key
        assert sorted(path.name for path in target.data_dir.iterdir() if path.name.startswith(".")) == []
        target_customer = Customer(target, customer.token)
        target.start("web")
        wait_until(target.is_answering, "the web server")
        assert target_customer.call("GET", f"/api/instance/{instance}")["id"] == instance
        assert target_customer.call("POST", "/api/projects", {"name": "After the move"})["success"]
        assert "Secret key: decrypts the values in the database" in target.run_panel("doctor", status=1)
    finally:
        target.kill_processes()


def back_up_to_destination(installation, folder):
    """Have a worker store a backup in a directory, and return a file to which it was fetched again."""
    operator = Customer(installation, installation.run_panel("token", "admin").strip())
    config = {"storage_type": "local", "config": {"path": str(folder / "offsite")}}
    destination = operator.call("POST", "/api/v1/backups/destinations", config | {"name": "offsite"})["data"]
    settings = {"destination_id": destination["id"], "passphrase": PASSPHRASE}
    operator.call("PUT", "/api/v1/backups/settings", settings)
    path = f"/api/v1/backups/run/{operator.call('POST', '/api/v1/backups/runs/trigger', {})['data']['id']}"
    run = wait_until(
        lambda: (row := operator.call("GET", path)["data"])["status"] in ("completed", "failed") and row, "the backup"
    )
    assert run["status"] == "completed", run
    description, file = folder / "destination.json", folder / "fetched.backup"
    description.write_text(json.dumps(config))
    assert run["archive"] in installation.run_panel("backup", "list", str(description))
    installation.run_panel("backup", "fetch", str(description), "latest", str(file))
    assert file.stat().st_size == run["size"]
    return file


def test_backup_and_restore_replace_data_only_with_force(installation, backup_arguments):
    file, passphrase = backup_arguments
    installation.run_panel("backup", "create", str(file), *passphrase)
    assert "exists already" in installation.run_panel("backup", "create", str(file), *passphrase, status=1)
    before = (installation.data_dir / "secret_key").read_bytes()
    assert "--force" in installation.run_panel("backup", "restore", str(file), *passphrase, status=1)
    broken = file.with_name("broken")
    broken.write_bytes(file.read_bytes()[:-20])
    for command in ("verify", "restore"):
        options = ("--force",) if command == "restore" else ()
        assert "damaged" in installation.run_panel("backup", command, str(broken), *passphrase, *options, status=1)
    assert (installation.data_dir / "secret_key").read_bytes() == before
    (installation.data_dir / "restore-in-progress").write_text("")
    assert "interrupted" in installation.run_panel("image", "list", status=1)
    assert "Restored" in installation.run_panel("backup", "restore", str(file), *passphrase, "--force")
    assert "simulated" in installation.run_panel("image", "list")


def test_missing_backup_file_is_reported_without_traceback(installation, backup_arguments):
    """A missing file or directory gets a message, not a traceback."""
    passphrase, directory = backup_arguments[1], backup_arguments[0].parent / "missing"
    missing = str(directory / "backup")
    for command, status in (("create", 1), ("verify", 2), ("restore", 2)):
        output = installation.run_panel("backup", command, missing, *passphrase, status=status)
        assert "Traceback" not in output
        assert str(directory) in output


def test_backup_restores_postgresql_database(backup_arguments, tmp_path):
    file, passphrase = backup_arguments
    with postgres.run_server() as first:
        source = Installation(tmp_path / "first", PANEL_DATABASE_URL=first)
        source.run_panel("setup", "--simulated")
        output = source.run_panel("backup", "create", str(file), *passphrase)
        assert "postgresql" in output
        assert "is valid" in source.run_panel("backup", "verify", str(file), *passphrase)
        images = source.run_panel("image", "list")
    with postgres.run_server() as second:
        target = Installation(tmp_path / "second", PANEL_DATABASE_URL=second)
        target.run_panel("backup", "restore", str(file), *passphrase)
        assert target.run_panel("image", "list") == images
        assert target.run_panel("db", "upgrade") == ""
        assert "--force" in target.run_panel("backup", "restore", str(file), *passphrase, status=1)
        target.run_panel("backup", "restore", str(file), *passphrase, "--force")
        assert target.run_panel("image", "list") == images


def test_lost_or_wrong_secret_key_stops_every_command(installation):
    """F3: no process starts, and no new key is created beside the data."""
    key_file = Path(installation.data_dir, "secret_key")
    original_key = key_file.read_text()
    key_file.unlink()
    for command in ("up", "web", "worker", "schedule", "console", "doctor"):
        assert "No new key was made" in installation.run_panel(command, status=1), command
    assert not key_file.exists()
    key_file.write_text("another key that is as long as it must be for a panel")
    for command in ("up", "web", "worker", "schedule", "console"):
        assert "The secret key is wrong" in installation.run_panel(command, status=1), command
    assert "FAILED  Secret key: The secret key is wrong" in installation.run_panel("doctor", status=1)
    key_file.write_text(original_key)
    installation.run_panel("db", "upgrade")


def test_unknown_database_version_is_reported_by_every_command(installation):
    """F2: every command prints a message, no traceback."""
    with sqlite3.connect(installation.data_dir / "panel.db") as database:
        database.execute("update alembic_version set version_num = '382ff56878d3'")
    for command in (("db", "upgrade"), ("db", "check"), ("up",), ("web",), ("worker",), ("schedule",), ("console",)):
        output = installation.run_panel(*command, status=1)
        assert "cannot use the database" in output, command
        assert "Traceback" not in output, command


def test_start_restricts_permissions_of_data_files(installation):
    """F4: a start restricts files that an earlier version left readable, and the doctor reports them."""
    (installation.data_dir / "panel.db").chmod(0o644)
    (installation.data_dir / "images").chmod(0o755)
    installation.data_dir.chmod(0o755)
    assert "FAILED  Files" in installation.run_panel("doctor", status=1)
    installation.start_all()
    assert find_exposed(installation.data_dir) == []
    for name in ("panel.db", "panel.db-wal", "secret_key", "redis.sock", "consoles.sock", "images", "simulated"):
        assert (installation.data_dir / name).stat().st_mode & 0o077 == 0, name
    assert installation.data_dir.stat().st_mode & 0o777 == 0o700
    assert "All checks passed." in installation.run_panel("doctor")
