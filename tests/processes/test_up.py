"""`panel up` as operators run it, and its recovery from killed child processes."""

import signal
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from panel.supervisor import SIGNAL_DEBOUNCE_SECONDS
from tests.support.waiting import wait_until

pytestmark = pytest.mark.processes


@pytest.fixture
def installation_settings():
    """The default number of workers."""
    return {"PANEL_WORKERS": "2"}


def test_up_serves_runs_tasks_and_stops(installation, customer):
    up = installation.start_all(start=installation.start_program)
    assert installation.call("GET", "/healthz") == (200, {"status": "ok"})
    parts = {"database": "ok", "redis": "ok", "workers": "ok"}
    assert installation.call("GET", "/readyz") == (200, {"status": "ok", "parts": parts})
    instance, task = customer.deploy()
    customer.wait_for_task(task)
    assert customer.call("GET", f"/api/instance/{instance}")["state"] == "running"
    processes = installation.list_processes()
    up.send_signal(signal.SIGTERM)
    assert up.wait(60) == 0
    assert [process for process in processes if process.is_running()] == []


def test_second_up_is_refused(installation):
    installation.start_all()
    assert "All checks passed." in installation.run_panel("doctor")
    assert "is already running" in installation.run_panel("up", status=1)
    installation.env["PANEL_DATA_DIR"] += "/other"
    assert f"{installation.bind} is already in use" in installation.run_panel("up", status=1)


def test_shutdown_finishes_running_request(installation, customer):
    """The request waits for the locked database when the signal arrives."""
    up = installation.start_all()
    database = sqlite3.connect(installation.data_dir / "panel.db", isolation_level=None)
    with database, ThreadPoolExecutor() as pool:
        database.execute("begin immediate")
        request = pool.submit(customer.call, "POST", "/api/ssh-key/generate", {"name": "late", "algorithm": "ed25519"})
        wait_until(lambda: has_client_connection(installation), "the request to arrive")
        up.send_signal(signal.SIGTERM)
        wait_until(lambda: "web_stopping" in installation.read_log(), "the web server to receive the signal")
        assert not request.done()
        database.execute("rollback")
        assert request.result()["success"]
    assert up.wait(60) == 0


def has_client_connection(installation):
    """Return whether a process has a connection of a client."""
    sockets = [connection for process in installation.list_processes() for connection in process.net_connections("tcp")]
    return any(connection.status == psutil.CONN_ESTABLISHED for connection in sockets)


def test_shutdown_finishes_claimed_task(installation, customer):
    up = installation.start_all()
    installation.run_panel("node", "fault", "simulated", "create_disk", "slow", "--seconds", "5")
    _, task = customer.deploy()
    wait_until(lambda: customer.get_task(task)["stage"] == "Creating the disk", "the task to run")
    up.send_signal(signal.SIGTERM)
    assert up.wait(60) == 0
    with sqlite3.connect(installation.data_dir / "panel.db") as database:
        row = database.execute("select status, attempt from tasks where id = ?", (task,)).fetchone()
    assert row == ("completed", 1)


def test_second_signal_ends_all_processes_immediately(installation, customer):
    up = installation.start_all()
    installation.run_panel("node", "fault", "simulated", "create_disk", "slow", "--seconds", "600")
    _, task = customer.deploy()
    wait_until(lambda: customer.get_task(task)["stage"] == "Creating the disk", "the task to run")
    processes = installation.list_processes()
    up.send_signal(signal.SIGTERM)
    wait_until(lambda: "worker_stopping" in installation.read_log(), "the workers to receive the signal")
    time.sleep(SIGNAL_DEBOUNCE_SECONDS)
    up.send_signal(signal.SIGTERM)
    up.wait(60)
    assert [process for process in processes if process.is_running()] == []


def test_killed_child_processes_are_restarted(installation, customer):
    installation.start_all()
    for name, program in (("web", "panel web"), ("schedule", "panel schedule"), ("redis", "redis-server")):
        (killed,) = installation.list_children(program)
        killed.kill()
        wait_until(lambda: not killed.is_running() and installation.list_children(program), name)  # noqa: B023  (called at once)
        assert f"process={name}" in installation.read_log()
    wait_until(installation.is_ready, "the panel to be ready")
    customer.wait_for_task(customer.deploy()[1])


def test_task_of_killed_workers_completes(installation, customer):
    installation.start_all()
    installation.run_panel("node", "fault", "simulated", "create_disk", "slow", "--seconds", "600", "--count", "1")
    _, task = customer.deploy()
    wait_until(lambda: customer.get_task(task)["stage"] == "Creating the disk", "the task to run")
    workers = installation.list_children("panel worker")
    assert len(workers) == 2
    for worker in workers:
        worker.kill()
    assert customer.wait_for_task(task)["status"] == "completed"
    logs = customer.call("GET", f"/api/task/{task}/logs")
    assert "The worker was lost" in str(logs)


def test_child_processes_end_with_killed_supervisor(installation):
    up = installation.start_all()
    processes = installation.list_processes()
    up.kill()
    up.wait()
    assert psutil.wait_procs(processes, 60)[1] == []
