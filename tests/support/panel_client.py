"""What the tests of fresh machines and of deployments share: output of processes, API requests and a first deployment.

It needs only Python's standard library, because these tests run before anything is installed.
"""

import json
import re
import sys
import threading
import time
import urllib.error
import urllib.request

READY_TIMEOUT_SECONDS = 900
TASK_TIMEOUT_SECONDS = 300


class Output:
    """Prints the output of a process and collects its lines."""

    def __init__(self, process):
        self.process, self.lines = process, []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            print(line, end="", flush=True)
            self.lines.append(line)

    def wait_for(self, pattern):
        end = time.monotonic() + READY_TIMEOUT_SECONDS
        while time.monotonic() < end:
            if match := re.search(pattern, "".join(self.lines)):
                return match
            if self.process.poll() is not None:
                sys.exit(f"make run ended with {self.process.returncode} before it printed {pattern!r}.")
            time.sleep(0.2)
        sys.exit(f"make run did not print {pattern!r} within {READY_TIMEOUT_SECONDS} s.")


def call(url, token, path, body=None):
    """Return the JSON answer of a request."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        sys.exit(f"{path} answered {error.code}: {error.read().decode()}")


def wait_until(condition, what):
    end = time.monotonic() + TASK_TIMEOUT_SECONDS
    while not (result := condition()):
        if time.monotonic() > end:
            sys.exit(f"Waited {TASK_TIMEOUT_SECONDS} s for {what}.")
        time.sleep(0.5)
    return result


def deploy(url, token):
    """Create and deploy an instance as in README's example. Return its id."""
    location = call(url, token, "/api/cloud-service/locations")["data"][0]["id"]
    group = call(url, token, f"/api/cloud-service/location/{location}/plan-groups")[0]["id"]
    plan = call(url, token, f"/api/cloud-service/location/{location}/plan-group/{group}/plans")[0]["id"]
    image = call(url, token, "/api/images/search")["results"][0]["children"][0]["id"]
    body = {"location_id": location, "plan_id": plan}
    instance = call(url, token, "/api/cloud-service/instances", body)["instance"]["id"]
    task = call(url, token, f"/api/instance/{instance}/deploy", {"image_id": image})["task_id"]

    def find_ended_task():
        task_row = call(url, token, f"/api/task/{task}")["task"]
        return task_row if task_row["status"] in ("completed", "failed") else None

    ended_task = wait_until(find_ended_task, "the deployment")
    if ended_task["status"] != "completed":
        sys.exit(f"The deployment failed: {ended_task}")
    return instance
