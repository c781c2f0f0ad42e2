"""Consoles while processes of the installation are down: requested sessions open after recovery. Screens of the
simulated node close with a message that they have no picture, so a client that receives it has reached the machine."""

import shutil
import socket
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from tests.support.console_client import ConsoleClient, WebSocketClosed
from tests.support.panel_processes import Customer, Installation
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until
from worker.nodes import NodeSpec, connect

pytestmark = pytest.mark.processes

NO_PICTURE_MESSAGE = "This is a simulated machine: it has no picture."


class Site:
    """An installation whose processes are started separately, and a running instance."""

    def __init__(self, installation, customer):
        self.installation, self.customer, self.processes = installation, customer, {}
        for name in ("web", "worker", "schedule", "console"):
            self.start_process(name)
        wait_until(installation.is_ready, "the web server and a worker")
        self.instance, task = customer.deploy()
        customer.wait_for_task(task)
        with sqlite3.connect(installation.data_dir / "panel.db") as database:
            node_row = database.execute("select id, name, driver, uri from hypervisors").fetchone()
        self.node = connect(NodeSpec(*node_row), installation.data_dir)

    def start_process(self, name):
        self.processes[name] = self.installation.start(name)

    def kill_process(self, name):
        self.processes[name].kill()
        self.processes[name].wait()

    def create_session(self, kind):
        return self.customer.call("POST", f"/api/instance/{self.instance}/{kind}-session")

    def read_close_reason(self, console_session):
        """Open the session as a browser does, and return the reason of its end."""
        viewer = self.connect(console_session["url"])
        try:
            return viewer.sign_in(console_session["password"])
        except WebSocketClosed as closed:
            return closed.reason

    def connect(self, address):
        host, _, port = self.installation.bind.partition(":")
        url = urlsplit(address)
        viewer = ConsoleClient(socket.create_connection((host, int(port)), 30), "binary")
        assert viewer.request(f"{url.path}?{url.query}", host=url.netloc) == 101
        return viewer


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    redis_server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield redis_server
    redis_server.kill()


@pytest.fixture(scope="module")
def site(tmp_path_factory, fresh_installation, redis):
    directory = tmp_path_factory.mktemp("site")
    shutil.copytree(fresh_installation[0].data_dir, directory, dirs_exist_ok=True)
    settings = {"PANEL_REDIS_URL": redis.url, "PANEL_PUBLIC_URL": "http://panel.example.com", "PANEL_WEB_WORKERS": "1"}
    installation = Installation(directory, **settings)
    yield Site(installation, Customer(installation, fresh_installation[1]))
    installation.kill_processes()


def test_vnc_session_created_without_redis_opens_after_outage(site, redis):
    """The notification of the worker was lost; the waiting browser repeats it."""
    redis.kill()
    console_session = site.create_session("console")
    with ThreadPoolExecutor() as pool:
        close_reason = pool.submit(site.read_close_reason, console_session)
        redis.start()
        assert close_reason.result() == NO_PICTURE_MESSAGE


def test_ssh_session_created_without_redis_opens_after_outage(site, redis):
    """Its task is a row, for which the reaper notifies again."""
    redis.kill()
    with ThreadPoolExecutor() as pool:
        console_session = pool.submit(site.create_session, "ssh")
        redis.start()
        assert console_session.result()["token"]


def test_vnc_session_opens_after_worker_is_replaced(site):
    site.node.fault("console", "slow", 1, 600)
    console_session = site.create_session("console")
    wait_until(lambda: not site.node.faults(), "the call")
    site.kill_process("worker")
    start_count = site.installation.read_log("worker").count("worker_started")
    site.start_process("worker")
    wait_until(lambda: site.installation.read_log("worker").count("worker_started") > start_count, "the second worker")
    assert site.read_close_reason(console_session) == NO_PICTURE_MESSAGE


def test_restarted_console_server_opens_earlier_sessions(site):
    console_session = site.create_session("console")
    site.kill_process("console")
    site.start_process("console")
    wait_until(
        lambda: site.installation.read_log("console").count("consoles_started") == 2, "the second console server"
    )
    assert site.read_close_reason(console_session) == NO_PICTURE_MESSAGE


def test_silent_node_is_reported_and_consoles_open_after_recovery(site):
    """SSH-20: the shell is refused without a `reason`; the screen closes with the message."""
    site.node.fault("agent_run", "silent", 1)
    status, answer = site.installation.call(
        "POST", f"/api/instance/{site.instance}/ssh-session", None, site.customer.token
    )
    assert (status, "reason" in answer) == (503, False)
    assert answer["message"] == "The shell cannot be opened. The hypervisor does not answer."
    site.node.fault("console", "silent")
    assert site.read_close_reason(site.create_session("console")) == "The hypervisor does not answer."
    site.node.clear()
    wait_until(
        lambda: site.read_close_reason(site.create_session("console")) == NO_PICTURE_MESSAGE,
        "the node to be tried again",
    )
    assert site.create_session("ssh")["token"]
