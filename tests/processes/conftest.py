"""A whole installation of its own: its processes, its data directory, a free port, a simulated hypervisor."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from http.client import HTTPException

import psutil
import pytest

WAIT_TIMEOUT_SECONDS = 240
"""Seconds until a test stops waiting. Never what a test measures."""


def wait_until(condition, what):
    until = time.monotonic() + WAIT_TIMEOUT_SECONDS
    while time.monotonic() < until:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(f"waited in vain for {what}")


def find_free_port():
    """Below those that the system gives to connections, so that none of them takes it before the server does."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Installation:
    def __init__(self, data_dir, **settings):
        self.data_dir = data_dir
        self.bind = f"127.0.0.1:{find_free_port()}"
        self.url = f"http://{self.bind}"
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("PANEL_")}
        self.env |= {"PANEL_DATA_DIR": str(data_dir), "PANEL_BIND": self.bind, "PANEL_PUBLIC_URL": self.url, **settings}
        self.running = []

    def run_panel(self, *words, status=0):
        """Runs a command to its end and returns what it wrote; only to standard output when it succeeded. There is
        nobody who could answer what it asks."""
        nobody = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
        done = subprocess.run(self.command(words), env=self.env, **nobody)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout if status == 0 else done.stdout + done.stderr

    def command(self, words):
        return [sys.executable, "-m", "panel.cli", *words]

    def start(self, *words):
        """Starts a part in the background; its output goes to a file of its name."""
        with (self.data_dir / f"{words[0]}.log").open("a") as log:
            process = subprocess.Popen(self.command(words), env=self.env, stdout=log, stderr=log)
        self.running.append(psutil.Process(process.pid))
        return process

    def log(self, name="up"):
        return (self.data_dir / f"{name}.log").read_text()

    def up(self):
        process = self.start("up")
        wait_until(lambda: "The panel is ready" in self.log() or process.poll() is not None, "the ready message")
        assert process.poll() is None, self.log()
        return process

    def parts(self, name):
        """Children of `panel up` that run the part: `worker`, `web`, `schedule`, or `redis-server`."""
        with suppress(psutil.NoSuchProcess):
            return [child for child in self.running[-1].children() if name in " ".join(child.cmdline())]
        return []

    def all_processes(self):
        """The background processes and all that they started."""
        found = []
        for process in self.running:
            with suppress(psutil.NoSuchProcess):
                found += [process, *process.children(recursive=True)]
        return found

    def call(self, method, path, body=None, token=None):
        """One request: the status and the JSON answer."""
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as answer:
            return answer.code, json.load(answer)

    def ready(self):
        return self.answers("/readyz")

    def answers(self, path="/healthz"):
        with suppress(OSError, HTTPException):
            return self.call("GET", path)[0] == 200
        return False

    def end(self):
        for process in self.all_processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()


class Customer:
    """Somebody who uses the API of an installation."""

    def __init__(self, installation, token):
        self.at, self.token = installation, token

    def call(self, method, path, body=None):
        status, answer = self.at.call(method, path, body, self.token)
        assert status < 400, answer
        return answer

    def deploy(self):
        """Orders a machine, the first plan and image there is; returns its id and that of the task that makes it."""
        location = self.call("GET", "/api/cloud-service/locations")["data"][0]["id"]
        groups = f"/api/cloud-service/location/{location}/plan-group"
        plans = self.call("GET", f"{groups}/{self.call('GET', groups + 's')[0]['id']}/plans")
        image = self.call("GET", "/api/images/search")["results"][0]["children"][0]["id"]
        wanted = {"location_id": location, "plan_id": plans[0]["id"]}
        instance = self.call("POST", "/api/cloud-service/instances", wanted)["instance"]["id"]
        return instance, self.call("POST", f"/api/instance/{instance}/deploy", {"image_id": image})["task_id"]

    def task(self, task):
        return self.call("GET", f"/api/task/{task}")["task"]

    def finished(self, task):
        """The task, once it has ended well."""
        ended = wait_until(lambda: (row := self.task(task))["status"] in ("completed", "failed") and row, "the task")
        assert ended["status"] == "completed", ended
        return ended


@pytest.fixture(scope="session")
def fresh_installation(tmp_path_factory):
    """An installation that was set up and never ran, and a token of its customer."""
    made = Installation(tmp_path_factory.mktemp("fresh"))
    made.run_panel("setup", "--simulated")
    return made, made.run_panel("token", "user", "--email", "customer@example.com").strip()


@pytest.fixture
def installation_settings():
    """Further settings of the installation."""
    return {}


@pytest.fixture
def installation(tmp_path, fresh_installation, installation_settings):
    shutil.copytree(fresh_installation[0].data_dir, tmp_path, dirs_exist_ok=True)
    made = Installation(tmp_path, **{"PANEL_WEB_WORKERS": "1", "PANEL_WORKERS": "1"} | installation_settings)
    yield made
    made.end()


@pytest.fixture
def customer(installation, fresh_installation):
    return Customer(installation, fresh_installation[1])
