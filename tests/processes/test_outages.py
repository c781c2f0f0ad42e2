"""A database that is locked, full or stopped: answers, /readyz and logs report it, and every process recovers without a
restart."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from panel.core import database_probe
from tests.support import postgres
from tests.support.panel_processes import Customer, Installation
from tests.support.waiting import wait_until

pytestmark = pytest.mark.processes

FULL_DISK_MIB = 12


def test_write_to_locked_database_is_refused_after_wait(installation, customer):
    """A5, F5: another process holds SQLite's write lock."""
    installation.start("web")
    wait_until(installation.is_answering, "the web server")
    database = sqlite3.connect(installation.data_dir / "panel.db", isolation_level=None)
    database.execute("begin immediate")
    status, answer = installation.call("POST", "/api/projects", {"name": "Fleet"}, customer.token)
    assert (status, answer["success"]) == (503, False)
    assert "Nothing was changed" in answer["message"]
    assert installation.call("GET", "/api/projects", token=customer.token)[0] == 200
    database.execute("rollback")
    assert installation.call("POST", "/api/projects", {"name": "Fleet"}, customer.token)[0] == 200
    assert "Traceback" not in installation.read_log("web")


def kill_postgresql(directory):
    """Kill every process of the PostgreSQL server with this directory, and wait until they have ended."""
    pid = int((directory / "data" / "postmaster.pid").read_text().splitlines()[0])
    server = psutil.Process(pid)
    server.send_signal(signal.SIGQUIT)
    psutil.wait_procs([server], 30)


def test_processes_recover_after_postgresql_restart(tmp_path):
    """F5: web, workers, scheduler and console continue without a restart."""
    with postgres.run_server() as address:
        directory = Path(address.rpartition("=")[2])
        installation = Installation(
            tmp_path,
            PANEL_DATABASE_URL=address,
            PANEL_WEB_WORKERS="1",
            PANEL_WORKERS="1",
            PANEL_SECRET_KEY="k" * 40,
            PANEL_METRICS_TOKEN="m" * 40,
        )
        try:
            installation.run_panel("setup", "--simulated")
            token = installation.run_panel("token", "user", "--email", "customer@example.com").strip()
            customer = Customer(installation, token)
            installation.start_all()
            before = {process.pid for process in installation.list_processes()}
            kill_postgresql(directory)
            create_project = lambda: installation.call("POST", "/api/projects", {"name": "Fleet"}, customer.token)  # noqa: E731
            status, answer = create_project()
            assert (status, answer["success"]) == (503, False)
            assert wait_until(lambda: installation.call("GET", "/readyz")[0] == 503, "the status of the database")
            assert installation.call("GET", "/readyz")[1]["parts"]["database"] != "ok"
            assert "\npanel_database_up 0.0\n" in installation.fetch_text("/metrics", "m" * 40)
            with restart_server(directory):
                wait_until(installation.is_ready, "the panel to be ready")
                assert create_project()[0] == 200
                assert "\npanel_database_up 1.0\n" in installation.fetch_text("/metrics", "m" * 40)
                customer.wait_for_task(customer.deploy()[1])
                assert {process.pid for process in installation.list_processes()} == before
                assert "Traceback" not in installation.read_log()
        finally:
            installation.kill_processes()


@contextmanager
def restart_server(directory):
    options_of_owner = postgres.make_unprivileged_options() | {"cwd": directory, "stdin": subprocess.DEVNULL}
    options = ["-k", directory, "-c", "listen_addresses=", "-c", "fsync=off"]
    with (directory / "log").open("a") as log:
        process = subprocess.Popen(
            [postgres.find_program_folder() / "postgres", "-D", directory / "data", *options],
            stderr=log,
            stdout=log,
            **options_of_owner,
        )
    try:
        postgres.wait_until_ready(process, directory)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_full_disk_is_reported_and_recovers(tmp_path):
    """F6: the data directory is a small disk, mounted in a namespace of the test's processes."""
    command = ["unshare", "--mount", "--net", sys.executable, "-m", __name__, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[2])
    assert result.returncode == 0, result.stdout + result.stderr


def fill_disk(directory):
    """Fill the disk, so that nothing more can be written."""
    with (directory / "filler").open("wb", buffering=0) as file:
        try:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    continue
        finally:
            os.fsync(file.fileno())


def run_full_disk_scenario(directory):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={FULL_DISK_MIB}m", "tmpfs", directory], check=True)
    installation = Installation(directory, PANEL_WEB_WORKERS="1")
    try:
        installation.run_panel("db", "upgrade")
        installation.run_panel("user", "create", "--email", "ada@example.com", "--password", "a long test password")
        token = installation.run_panel("token", "user", "--email", "ada@example.com").strip()
        installation.start("web")
        wait_until(installation.is_answering, "the web server")
        names = (f"Fleet {number}" for number in range(100))
        create_project = lambda: installation.call("POST", "/api/projects", {"name": next(names)}, token)  # noqa: E731
        assert create_project()[0] == 200
        fill_disk(directory)
        answers = [create_project() for _ in range(20)]
        refused = [answer for status, answer in answers if status == 503]
        assert refused, answers
        assert {status for status, _ in answers} <= {200, 503}
        assert all("Nothing was changed" in answer["message"] for answer in refused)
        time.sleep(database_probe.PROBE_INTERVAL_SECONDS + 2)
        assert "disk full" in installation.call("GET", "/readyz")[1]["parts"]["database"]
        assert "FAILED  Data" in installation.run_panel("doctor", status=1)
        (directory / "filler").unlink()
        assert create_project()[0] == 200
        wait_until(
            lambda: installation.call("GET", "/readyz")[1]["parts"]["database"] == "ok", "the status of the database"
        )
        assert "Traceback" not in installation.read_log("web")
    finally:
        installation.kill_processes()


if __name__ == "__main__":
    run_full_disk_scenario(Path(sys.argv[1]))
