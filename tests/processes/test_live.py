"""Live pages through the real web, worker and console processes: who gets a change, how soon, and until when."""

import http.client
import json
import shutil
import threading
import time
from datetime import datetime
from urllib.parse import urlencode

import pytest

from panel.core import clock
from tests.support.panel_processes import Customer, Installation
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.processes

PASSWORD = "a long test password"
DELIVERY_SECONDS, END_SECONDS = 1.0, 5.0
BUSY_SECONDS = 2.0
"""Tolerance for a machine that does other things."""


class Browser:
    """A signed-in browser that reads a stream of changes."""

    def __init__(self, installation, email):
        self.host, self.cookie, self.events, self.reader = installation.bind, "", [], None
        answer = self.request("POST", "/sign-in", {"email": email, "password": PASSWORD})
        self.cookie = "; ".join(cookie.partition(";")[0] for cookie in answer.headers.get_all("Set-Cookie"))
        wait_until(self.open_stream, "the stream of changes")
        wait_until(lambda: self.events, "the first event")

    def request(self, method, path, form=None):
        connection = http.client.HTTPConnection(self.host, timeout=60)
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
        connection.request(method, path, urlencode(form or {}), headers | {"Cookie": self.cookie})
        return connection.getresponse()

    def open_stream(self):
        answer = self.request("GET", f"/live?since={int(time.time() * 1000)}")
        if answer.status == 200:
            self.reader = threading.Thread(target=self.read_events, args=(answer,), daemon=True)
            self.reader.start()
        return answer.status == 200

    def read_events(self, answer):
        for line in answer:
            if line.startswith(b"data: "):
                self.events.append((clock.now(), json.loads(line.removeprefix(b"data: "))))

    def list_arrivals(self, row_id):
        """Return when the events that name the row arrived."""
        return [moment for moment, changes in self.events if any(row_id in change for change in changes)]


@pytest.fixture
def site(tmp_path, fresh_installation):
    shutil.copytree(fresh_installation[0].data_dir, tmp_path, dirs_exist_ok=True)
    redis = RedisServer(tmp_path)
    installation = Installation(tmp_path, PANEL_REDIS_URL=redis.url, PANEL_WEB_WORKERS="1")
    installation.run_panel("user", "create", "--email", "other@example.com", "--password", PASSWORD)
    installation.run_panel("user", "password", "--email", "customer@example.com", "--password", PASSWORD)
    for name in ("web", "worker", "schedule", "console"):
        installation.start(name)
    wait_until(installation.is_ready, "the web server and a worker")
    yield installation, Customer(installation, fresh_installation[1])
    installation.kill_processes()
    redis.kill()


def test_changes_reach_only_their_owner_until_the_session_ends(site):
    installation, customer = site
    instance, task = customer.deploy()
    customer.wait_for_task(task)
    browser, other = Browser(installation, "customer@example.com"), Browser(installation, "other@example.com")
    task = customer.call("POST", f"/api/instance/{instance}/power/poweroff")["task_id"]
    finished_at = datetime.fromisoformat(customer.wait_for_task(task)["finished_at"])
    wait_until(lambda: any(moment > finished_at for moment in browser.list_arrivals(task)), "the end of the task")
    delay = min(moment - finished_at for moment in browser.list_arrivals(task) if moment > finished_at)
    assert delay.total_seconds() < DELIVERY_SECONDS + BUSY_SECONDS
    assert browser.list_arrivals(instance)
    browser.request("POST", "/sign-out")
    browser.reader.join(END_SECONDS + BUSY_SECONDS)
    assert (browser.reader.is_alive(), other.reader.is_alive()) == (False, True)
    assert browser.request("GET", "/live").status == 204
    assert [changes for _, changes in other.events if changes] == []
