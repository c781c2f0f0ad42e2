"""Live pages through the real web, worker and console processes: who is told of a change, how soon, and until when."""

import http.client
import json
import shutil
import time
from urllib.parse import urlencode

import pytest

from tests.support.panel_processes import Customer, Installation
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.processes

PASSWORD = "a long test password"
DELIVERY_SECONDS, END_SECONDS = 1.0, 5.0
QUIET_SECONDS = 1.5


class Browser:
    """A signed-in browser with a stream of changes."""

    def __init__(self, installation, email):
        self.host = installation.bind
        answer = self.request("POST", "/sign-in", {"email": email, "password": PASSWORD})
        self.cookie = "; ".join(cookie.partition(";")[0] for cookie in answer.headers.get_all("Set-Cookie"))
        wait_until(self.open_stream, "the stream of changes")

    def request(self, method, path, form=None):
        connection = http.client.HTTPConnection(self.host, timeout=30)
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
        if hasattr(self, "cookie"):
            headers["Cookie"] = self.cookie
        connection.request(method, path, urlencode(form or {}), headers)
        return connection.getresponse()

    def open_stream(self):
        self.stream = self.request("GET", f"/live?since={int(time.time() * 1000)}")
        return self.stream.status == 200 and self.read_event()

    def read_event(self):
        """Return the name and data of the next event, or None when the stream has ended."""
        fields = {}
        while line := self.stream.readline():
            name, _, value = line.decode().strip().partition(": ")
            if name == "data":
                return fields["event"], json.loads(value)
            fields[name] = value
        return None

    def wait_for(self, resource_id):
        """Return the seconds until a change of the resource arrives."""
        start = time.monotonic()
        while all(resource_id not in change for change in self.read_event()[1]):
            pass
        return time.monotonic() - start

    def set_timeout(self, seconds):
        self.stream.fp.raw._sock.settimeout(seconds)


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
    browser.wait_for(customer.call("POST", f"/api/instance/{instance}/power/poweroff")["task_id"])
    assert browser.wait_for(instance) < DELIVERY_SECONDS
    other.set_timeout(QUIET_SECONDS)
    with pytest.raises(TimeoutError):
        other.read_event()
    browser.request("POST", "/sign-out")
    browser.set_timeout(END_SECONDS)
    while browser.read_event():
        pass
    assert browser.request("GET", "/live").status == 204
