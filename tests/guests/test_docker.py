"""Docker in a real Debian: installed by the panel from the guest's packages, and apps that run in it (OTH-10)."""

import json
import time
import urllib.request
from contextlib import suppress
from datetime import datetime
from http.client import HTTPException

import pytest

from tests.guests import package_archive
from worker.nodes.base import GiB

pytestmark = [pytest.mark.guest, pytest.mark.debian, pytest.mark.slow_proof("docker")]

IMAGES = ("tests/web:1", "nginx:1.28.3-alpine")
COMPOSE = """\
services:
  web:
    image: tests/web:1
    restart: unless-stopped
    ports: ["8080:80"]
    environment:
      WORDS: ${WORDS}
    command: [sh, -c, 'mkdir -p /www && echo "$$WORDS" >/www/index.html && echo began && exec httpd -f -p 80 -h /www']
    volumes: ["data:/data"]
volumes:
  data:
"""
LONG_COMPOSE = COMPOSE + "".join(f"# {number} lines that one call of the agent cannot bring\n" for number in range(800))
COMPOSE_WITH_ABSENT_IMAGE = "services:\n  web:\n    image: example.invalid/none:1\n"
MESSAGE = 'it\'s $HOME & "more" é'
SERVE_COMMAND = "mkdir -p /www && echo an app of the catalog >/www/index.html && exec httpd -f -p 80 -h /www"
FAST_DPKG_CONFIG = {
    # The archive is a plain directory on this machine, and nobody needs what dpkg does for power cuts.
    "write_files": [
        {"path": "/etc/dpkg/dpkg.cfg.d/quick", "content": "force-unsafe-io\npath-exclude=/usr/share/doc/*\n"}
    ]
}


def wait_until(condition, description, seconds=1200):
    """A whole Debian under an emulated processor, beside other tests, takes its time."""
    until = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < until, f"waited in vain for {description}"
        time.sleep(0.5)
    return result


@pytest.fixture(scope="module")
def server(hypervisor, guest_cache, tmp_path_factory):
    """A package archive and an image, as the guest would have from the internet."""
    directory = tmp_path_factory.mktemp("served")
    (directory / "debian").symlink_to(package_archive.build_archive(package_archive.DOCKER_PACKAGES, cache=guest_cache))
    package_server = package_archive.Server(hypervisor.network.gateway4.split("/")[0], directory)
    yield package_server
    package_server.close()


class Guest:
    """The instance, as its customer sees it."""

    def __init__(self, lab, instance):
        self.lab, self.instance = lab, instance
        self.ip = instance["primary_public_ip"]["ip"]

    def call(self, method="GET", path="", body=None):
        """Return the answer. Tries again while the panel does not know that the guest agent answers."""
        path = f"/api/instance/{self.instance['id']}/docker{path}"
        send_request = lambda: self.lab.installation.call(method, path, body, self.lab.token)  # noqa: E731
        is_agent_unavailable = lambda response: response[1].get("reason") == "agent_unavailable"  # noqa: E731
        status, answer = wait_until(
            lambda: not is_agent_unavailable(response := send_request()) and response, "the guest agent"
        )
        assert status < 400, answer
        return answer

    def find(self, app_id):
        return next((deployment for deployment in self.call()["deployments"] if deployment["id"] == app_id), None)

    def run_task(self, method, path, body=None):
        """Return the answer once its task has ended. The app's state says how it ended."""
        answer = self.call(method, path, body)
        has_ended = lambda: self.lab.get_task(answer["task_id"])["status"] not in ("queued", "running")  # noqa: E731
        wait_until(has_ended, "the task")
        return answer

    def deploy(self, path, **body):
        """Deploy an app and return it when it runs or has failed."""
        return self.find(self.run_task("POST", path, body)["deployment"]["id"])

    def fetch(self, port):
        """Return the page at the port, fetched from outside of the machine, or None."""
        with suppress(OSError, HTTPException), urllib.request.urlopen(f"http://{self.ip}:{port}/", timeout=5) as answer:
            return answer.read().decode().strip()

    def run(self, command):
        return self.lab.ssh(self.ip, command, wait_seconds=900).strip()


@pytest.fixture(scope="module")
def guest(lab, server, debian_image):
    group = lab.call("GET", f"/api/cloud-service/location/{lab.location}/plan-groups")[0]["id"]
    # One core: with two, an emulated kernel spends a minute more on keeping them in step (rcu_preempt).
    plan = {"name": "Docker", "plan_group_id": group, "cpu_cores": 1, "ram": 1024, "storage": 5}
    images = [image for row in lab.call("GET", "/api/images/search")["results"] for image in row["children"]]
    [image_id] = [image["id"] for image in images if image["name"] == "debian"]
    is_storage_reported = lambda: lab.call_admin("GET", f"/hypervisor/{lab.node}")["storages"][0]["capacity"] > 5 * GiB  # noqa: E731
    wait_until(is_storage_reported, "the node to say how large its storage is")
    instance = lab.create(plan_id=lab.call_admin("POST", "/instance/plans", plan)["id"], hostname="docker.example.com")
    sources = {"preserve_sources_list": False, "sources_list": f"deb [trusted=yes] {server.url}/debian ./\n"}
    body = {
        "image_id": image_id,
        "ssh_keys": [lab.key_id],
        "cloudcfg": json.dumps({"apt": sources, **FAST_DPKG_CONFIG}),
    }
    lab.install(instance, **body)
    wait_until(lambda: lab.call("GET", f"/api/instance/{instance['id']}/guest-ips")["data"], "the agent's report")
    yield Guest(lab, lab.get_instance(instance))
    lab.destroy(instance)


@pytest.fixture(scope="module")
def docker(guest, server, busybox):
    """The instance with two images in Docker, which the panel installed during the first boot."""
    assert guest.call()["docker_enabled"] is False
    guest.run_task("POST", "/install")
    assert (guest.call()["docker_error"], guest.call()["docker_enabled"]) == (None, True)
    package_archive.build_root_file_system(busybox, server.directory / "root.tar")
    command = json.dumps(["sh", "-c", SERVE_COMMAND])
    for image in IMAGES:
        guest.run(f"curl -s {server.url}/root.tar | docker import --change 'CMD {command}' - {image}")
    assert len(guest.run("docker images -q").split()) == len(IMAGES)
    return guest


@pytest.fixture(scope="module")
def web(docker, standalone_file_server):
    """An app of a compose file at a URL, with a value that a shell would expand."""
    url = standalone_file_server.put("/compose.yaml", LONG_COMPOSE.encode())
    body = {"app_name": "Web", "compose_url": url, "env_variables": {"WORDS": MESSAGE}}
    return docker.deploy("/custom", **body)


def test_docker_install_succeeds_once(docker):
    assert "overlay2" in docker.run("docker info")
    assert docker.run("systemctl is-enabled docker") == "enabled"
    status, answer = docker.lab.installation.call(
        "POST", f"/api/instance/{docker.instance['id']}/docker/install", None, docker.lab.token
    )
    assert (status, answer["reason"]) == (422, "already_installed")


def test_compose_app_runs_and_answers(docker, web):
    """OTH-10"""
    assert (web["status"], web["error_message"], web["app_slug"]) == ("running", None, "custom")
    assert wait_until(lambda: docker.fetch(8080), "the app's answer") == MESSAGE
    folder = f"/opt/panel-apps/{web['project_name']}"
    assert docker.run(f"stat -c '%a %U' {folder} {folder}/.env").split() == ["700", "root", "600", "root"]
    assert docker.run(f"cat {folder}/compose.yaml") == LONG_COMPOSE.strip()


def test_app_logs_are_read(docker, web):
    """OTH-10"""
    answer = docker.call(path=f"/{web['id']}/logs")
    logs = wait_until(lambda: answer["logs"] or docker.call(path=f"/{web['id']}/cached-logs")["logs"], "the logs")
    time, service, _, text = logs.splitlines()[0].split(maxsplit=3)
    assert datetime.fromisoformat(time[:19]).year > 2020
    assert (service, text) == ("web", "began")
    path = f"/instance/{docker.instance['id']}/docker/{web['id']}/cached-logs"
    assert docker.lab.call_admin("GET", path)["logs"].startswith(time)


def test_catalog_app_uses_chosen_port(docker):
    app = docker.deploy("", app_slug="nginx", port_mappings=[{"container_port": 80, "host_port": 8081}])
    assert (app["status"], app["error_message"]) == ("running", None)
    # The image is the tests' own, under the name of the catalog's.
    assert wait_until(lambda: docker.fetch(8081), "the app's answer") == "an app of the catalog"
    docker.run_task("DELETE", f"/{app['id']}")
    assert docker.find(app["id"]) is None
    assert docker.fetch(8081) is None
    assert docker.run(f"docker ps -aq --filter label=com.docker.compose.project={app['project_name']}") == ""
    assert docker.run("docker volume ls -q").split().count(f"{app['project_name']}_pages") == 1
    assert docker.run(f"ls -d /opt/panel-apps/{app['project_name']} 2>/dev/null") == ""


def test_unfetchable_image_fails_deployment(docker, standalone_file_server):
    """The error message is Compose's."""
    app = docker.deploy(
        "/custom",
        app_name="Absent",
        compose_url=standalone_file_server.put("/absent.yaml", COMPOSE_WITH_ABSENT_IMAGE.encode()),
    )
    assert app["status"] == "failed"
    assert "example.invalid" in app["error_message"]
    docker.run_task("DELETE", f"/{app['id']}")


def test_app_is_stopped_and_started(docker, web):
    docker.run_task("POST", f"/{web['id']}/stop")
    assert docker.find(web["id"])["status"] == "stopped"
    assert docker.fetch(8080) is None
    docker.run_task("POST", f"/{web['id']}/start")
    assert docker.find(web["id"])["status"] == "running"
    assert wait_until(lambda: docker.fetch(8080), "the app's answer") == MESSAGE


def test_app_without_containers_is_redeployed(docker, web):
    docker.run(f"docker rm -f $(docker ps -q --filter label=com.docker.compose.project={web['project_name']})")
    docker.run_task("POST", f"/{web['id']}/check-status")
    app = docker.find(web["id"])
    assert app["status"] == "error"
    assert "no longer exist" in app["error_message"]
    docker.run_task("POST", f"/{web['id']}/retry")
    app = docker.find(web["id"])
    assert (app["status"], app["error_message"]) == ("running", None)
    assert wait_until(lambda: docker.fetch(8080), "the app's answer") == MESSAGE
