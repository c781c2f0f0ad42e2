"""A complete installation for a test: its processes, data directory, a free port and a simulated hypervisor."""

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from http.client import HTTPException

import psutil
import pytest

from tests.support.panel_commands import run_command, start_command
from tests.support.ports import find_free_port
from tests.support.waiting import wait_until


class Installation:
    def __init__(self, data_dir, **settings):
        self.data_dir = data_dir
        self.bind = f"127.0.0.1:{find_free_port()}"
        self.url = f"http://{self.bind}"
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("PANEL_")}
        self.env |= {"PANEL_DATA_DIR": str(data_dir), "PANEL_BIND": self.bind, "PANEL_PUBLIC_URL": self.url, **settings}
        self.running = []

    def run_panel(self, *arguments, status=0):
        """Run a command to its end and return its output; only standard output when it succeeded. Standard input is
        empty, so prompts get no answer."""
        result = run_command(arguments, self.env)
        assert result.returncode == status, result.stdout + result.stderr
        return result.stdout if status == 0 else result.stdout + result.stderr

    def build_command(self, arguments):
        return [sys.executable, "-m", "panel.cli", *arguments]

    def start(self, *arguments):
        """Start a `panel` command in the background. Its output goes to a log file with its name."""
        process = start_command(arguments, self.env, self.data_dir / f"{arguments[0]}.log")
        self.running.append(psutil.Process(process.pid))
        return process

    def start_program(self, *arguments):
        """Start a command as `start` does, as a program of its own that imports everything itself."""
        with (self.data_dir / f"{arguments[0]}.log").open("a") as log:
            process = subprocess.Popen(self.build_command(arguments), env=self.env, stdout=log, stderr=log)
        self.running.append(psutil.Process(process.pid))
        return process

    def read_log(self, name="up"):
        return (self.data_dir / f"{name}.log").read_text()

    def start_all(self, *, start=None):
        process = (start or self.start)("up")
        wait_until(lambda: "The panel is ready" in self.read_log() or process.poll() is not None, "the ready message")
        assert process.poll() is None, self.read_log()
        return process

    def list_children(self, name):
        """Return the children of `panel up` whose title has `panel worker`, `panel web`, `redis-server` or such."""
        children = []
        for parent in self.running:
            with suppress(psutil.NoSuchProcess):
                children += parent.children()
        return [child for child in children if name in " ".join(read_command(child))]

    def list_processes(self):
        """Return the background processes and their descendants."""
        processes = []
        for process in self.running:
            with suppress(psutil.NoSuchProcess):
                processes += [process, *process.children(recursive=True)]
        return processes

    def call(self, method, path, body=None, token=None):
        """Send a request and return the status and the JSON body."""
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as answer:
            return answer.code, json.load(answer)

    def fetch_text(self, path, token):
        """Return the body of a successful answer."""
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read().decode()

    def is_ready(self):
        return self.is_answering("/readyz")

    def is_answering(self, path="/healthz"):
        with suppress(OSError, HTTPException):
            return self.call("GET", path)[0] == 200
        return False

    def kill_processes(self):
        for process in self.list_processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()


def read_command(process):
    """Return the command line, or nothing of a process that has just ended."""
    with suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []


class Customer:
    """A user of the API of an installation."""

    def __init__(self, installation, token):
        self.installation, self.token = installation, token

    def call(self, method, path, body=None):
        status, answer = self.installation.call(method, path, body, self.token)
        assert status < 400, answer
        return answer

    def create_instance(self, **values):
        """Create an instance with the first plan and return its id."""
        location = self.call("GET", "/api/cloud-service/locations")["data"][0]["id"]
        groups = f"/api/cloud-service/location/{location}/plan-group"
        plans = self.call("GET", f"{groups}/{self.call('GET', groups + 's')[0]['id']}/plans")
        body = {"location_id": location, "plan_id": plans[0]["id"]} | values
        return self.call("POST", "/api/cloud-service/instances", body)["instance"]["id"]

    def deploy(self):
        """Order an instance with the first plan and image. Return its id and the id of its deploy task."""
        instance = self.create_instance()
        image = self.call("GET", "/api/images/search")["results"][0]["children"][0]["id"]
        return instance, self.call("POST", f"/api/instance/{instance}/deploy", {"image_id": image})["task_id"]

    def get_task(self, task):
        return self.call("GET", f"/api/task/{task}")["task"]

    def wait_for_task(self, task):
        """Return the task after it completed."""
        completed_task = wait_until(
            lambda: (row := self.get_task(task))["status"] in ("completed", "failed") and row, "the task"
        )
        assert completed_task["status"] == "completed", completed_task
        return completed_task


@pytest.fixture(scope="session")
def fresh_installation(tmp_path_factory):
    """An installation that was set up and never ran, and a token of its customer."""
    set_up_installation = Installation(tmp_path_factory.mktemp("fresh"))
    set_up_installation.run_panel("setup", "--simulated")
    return set_up_installation, set_up_installation.run_panel(
        "token", "user", "--email", "customer@example.com"
    ).strip()


@pytest.fixture
def installation_settings():
    """Further settings of the installation."""
    return {}


@pytest.fixture
def installation(tmp_path, fresh_installation, installation_settings):
    shutil.copytree(fresh_installation[0].data_dir, tmp_path, dirs_exist_ok=True)
    copied_installation = Installation(
        tmp_path, **{"PANEL_WEB_WORKERS": "1", "PANEL_WORKERS": "1"} | installation_settings
    )
    yield copied_installation
    copied_installation.kill_processes()


@pytest.fixture
def customer(installation, fresh_installation):
    return Customer(installation, fresh_installation[1])
