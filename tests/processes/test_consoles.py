"""Consoles while parts of the installation die: what was asked for opens as soon as they are back. The node is a
simulated one, whose screens say in a sentence that they have no picture: whoever hears it has reached the machine."""

import shutil
import socket
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from tests.processes.conftest import Customer, Installation, wait_until
from tests.support.console_client import ConsoleClient, WebSocketClosed
from tests.support.redis_server import RedisServer
from worker.nodes import NodeSpec, connect

pytestmark = pytest.mark.processes

NO_PICTURE_MESSAGE = "This is a simulated machine: it has no picture."


class Site:
    """An installation whose parts are processes of this test, and an instance that runs."""

    def __init__(self, installation, customer):
        self.at, self.customer, self.parts = installation, customer, {}
        for name in ("web", "worker", "schedule", "console"):
            self.start(name)
        wait_until(installation.ready, "the web server and a worker")
        self.instance, task = customer.deploy()
        customer.finished(task)
        with sqlite3.connect(installation.data_dir / "panel.db") as database:
            node = database.execute("select id, name, driver, uri from hypervisors").fetchone()
        self.node = connect(NodeSpec(*node), installation.data_dir)

    def start(self, name):
        self.parts[name] = self.at.start(name)

    def kill(self, name):
        self.parts[name].kill()
        self.parts[name].wait()

    def create_session(self, kind):
        return self.customer.call("POST", f"/api/instance/{self.instance}/{kind}-session")

    def screen(self, console_session):
        """The sentence that a browser which opens it is told."""
        viewer = self.connect(console_session["url"])
        try:
            return viewer.sign_in(console_session["password"])
        except WebSocketClosed as closed:
            return closed.reason

    def connect(self, address):
        host, _, port = self.at.bind.partition(":")
        parts = urlsplit(address)
        viewer = ConsoleClient(socket.create_connection((host, int(port)), 30), "binary")
        assert viewer.request(f"{parts.path}?{parts.query}", host=parts.netloc) == 101
        return viewer


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    made = RedisServer(tmp_path_factory.mktemp("redis"))
    yield made
    made.kill()


@pytest.fixture(scope="module")
def site(tmp_path_factory, fresh_installation, redis):
    directory = tmp_path_factory.mktemp("site")
    shutil.copytree(fresh_installation[0].data_dir, directory, dirs_exist_ok=True)
    settings = {"PANEL_REDIS_URL": redis.url, "PANEL_PUBLIC_URL": "http://panel.example.com", "PANEL_WEB_WORKERS": "1"}
    made = Installation(directory, **settings)
    yield Site(made, Customer(made, fresh_installation[1]))
    made.end()


def test_a_vnc_session_created_without_redis_opens_after_the_outage(site, redis):
    """The bell for the worker was lost; it is rung again for the browser that waits."""
    redis.kill()
    console_session = site.create_session("console")
    with ThreadPoolExecutor() as pool:
        told = pool.submit(site.screen, console_session)
        redis.start()
        assert told.result() == NO_PICTURE_MESSAGE


def test_an_ssh_session_created_without_redis_opens_after_the_outage(site, redis):
    """Its task is a row, for which the sweep rings."""
    redis.kill()
    with ThreadPoolExecutor() as pool:
        console_session = pool.submit(site.create_session, "ssh")
        redis.start()
        assert console_session.result()["token"]


def test_a_worker_that_dies_while_it_prepares_a_screen_is_replaced(site):
    site.node.fault("console", "slow", 1, 600)
    console_session = site.create_session("console")
    wait_until(lambda: not site.node.faults(), "the call")
    site.kill("worker")
    begun = site.at.log("worker").count("worker_started")
    site.start("worker")
    wait_until(lambda: site.at.log("worker").count("worker_started") > begun, "the second one")
    assert site.screen(console_session) == NO_PICTURE_MESSAGE


def test_a_restarted_console_server_opens_earlier_sessions(site):
    console_session = site.create_session("console")
    site.kill("console")
    site.start("console")
    wait_until(lambda: site.at.log("console").count("consoles_started") == 2, "the second one")
    assert site.screen(console_session) == NO_PICTURE_MESSAGE


def test_a_node_that_is_cut_off_is_said_and_opens_consoles_again_when_it_is_back(site):
    """SSH-20: the shell is refused without a reason word; the screen says it to who looks."""
    site.node.fault("agent_run", "silent", 1)
    status, answer = site.at.call("POST", f"/api/instance/{site.instance}/ssh-session", None, site.customer.token)
    assert (status, "reason" in answer) == (503, False)
    assert answer["message"] == "The shell cannot be opened. The hypervisor does not answer."
    site.node.fault("console", "silent")
    assert site.screen(site.create_session("console")) == "The hypervisor does not answer."
    site.node.clear()
    wait_until(lambda: site.screen(site.create_session("console")) == NO_PICTURE_MESSAGE, "the node to be tried again")
    assert site.create_session("ssh")["token"]
