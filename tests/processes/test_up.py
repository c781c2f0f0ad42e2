"""`panel up`: the whole product as people run it, and what happens to it when its parts are killed."""

import signal
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from panel.supervisor import SIGNAL_DEBOUNCE_SECONDS
from tests.processes.conftest import wait_until

pytestmark = pytest.mark.processes


@pytest.fixture
def installation_settings():
    """As many workers as there are where nobody says how many."""
    return {"PANEL_WORKERS": "2"}


def test_it_serves_works_and_stops(installation, customer):
    up = installation.up()
    assert installation.call("GET", "/healthz") == (200, {"status": "ok"})
    parts = {"database": "ok", "redis": "ok", "workers": "ok"}
    assert installation.call("GET", "/readyz") == (200, {"status": "ok", "parts": parts})
    instance, task = customer.deploy()
    customer.finished(task)
    assert customer.call("GET", f"/api/instance/{instance}")["state"] == "running"
    everything = installation.all_processes()
    up.send_signal(signal.SIGTERM)
    assert up.wait(60) == 0
    assert [process for process in everything if process.is_running()] == []


def test_a_second_one_is_refused(installation):
    installation.up()
    assert "All checks passed." in installation.run_panel("doctor")
    assert "is already running" in installation.run_panel("up", status=1)
    installation.env["PANEL_DATA_DIR"] += "/other"
    assert f"{installation.bind} is already in use" in installation.run_panel("up", status=1)


def test_a_stop_finishes_the_request_under_way(installation, customer):
    """The request waits for the database, which somebody else holds, when the signal comes."""
    up = installation.up()
    database = sqlite3.connect(installation.data_dir / "panel.db", isolation_level=None)
    with database, ThreadPoolExecutor() as pool:
        database.execute("begin immediate")
        request = pool.submit(customer.call, "POST", "/api/ssh-key/generate", {"name": "late", "algorithm": "ed25519"})
        wait_until(lambda: has_client_connection(installation), "the request to arrive")
        up.send_signal(signal.SIGTERM)
        wait_until(lambda: "web_stopping" in installation.log(), "the web server to be asked")
        assert not request.done()
        database.execute("rollback")
        assert request.result()["success"]
    assert up.wait(60) == 0


def has_client_connection(installation):
    """Whether a process holds a connection of a client."""
    sockets = [found for process in installation.all_processes() for found in process.net_connections("tcp")]
    return any(found.status == psutil.CONN_ESTABLISHED for found in sockets)


def test_shutdown_finishes_the_claimed_task(installation, customer):
    up = installation.up()
    installation.run_panel("node", "fault", "simulated", "create_disk", "slow", "--seconds", "5")
    _, task = customer.deploy()
    wait_until(lambda: customer.task(task)["stage"] == "Creating the disk", "the task to be at work")
    up.send_signal(signal.SIGTERM)
    assert up.wait(60) == 0
    with sqlite3.connect(installation.data_dir / "panel.db") as database:
        row = database.execute("select status, attempt from tasks where id = ?", (task,)).fetchone()
    assert row == ("completed", 1)


def test_a_second_signal_hurries(installation, customer):
    up = installation.up()
    installation.run_panel("node", "fault", "simulated", "create_disk", "slow", "--seconds", "600")
    _, task = customer.deploy()
    wait_until(lambda: customer.task(task)["stage"] == "Creating the disk", "the task to be at work")
    everything = installation.all_processes()
    up.send_signal(signal.SIGTERM)
    wait_until(lambda: "worker_finishes" in installation.log(), "the workers to be asked")
    time.sleep(SIGNAL_DEBOUNCE_SECONDS)
    up.send_signal(signal.SIGTERM)
    up.wait(60)
    assert [process for process in everything if process.is_running()] == []


def test_parts_that_are_killed_come_back_and_work_goes_on(installation, customer):
    installation.up()
    for name, program in (("web", "panel.cli web"), ("schedule", "schedule"), ("redis", "redis-server")):
        (killed,) = installation.parts(program)
        killed.kill()
        wait_until(lambda: not killed.is_running() and installation.parts(program), name)  # noqa: B023  (called at once)
        assert f"part={name}" in installation.log()
    wait_until(installation.ready, "all to be ready again")
    customer.finished(customer.deploy()[1])


def test_a_task_survives_the_death_of_its_worker(installation, customer):
    installation.up()
    installation.run_panel("node", "fault", "simulated", "create_disk", "slow", "--seconds", "600", "--count", "1")
    _, task = customer.deploy()
    wait_until(lambda: customer.task(task)["stage"] == "Creating the disk", "the task to be at work")
    workers = installation.parts("panel.cli worker")
    assert len(workers) == 2
    for worker in workers:
        worker.kill()
    assert customer.finished(task)["status"] == "completed"
    logs = customer.call("GET", f"/api/task/{task}/logs")
    assert "The worker was lost" in str(logs)


def test_no_part_outlives_a_supervisor_that_was_killed(installation):
    up = installation.up()
    everything = installation.all_processes()
    up.kill()
    up.wait()
    assert psutil.wait_procs(everything, 60)[1] == []
