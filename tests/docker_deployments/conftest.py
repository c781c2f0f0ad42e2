"""A customer's machine that runs, with its guest agent there, and what is done with Docker in it."""

import pytest

from panel.core.db import session
from panel.models import Instance
from panel.workflows import waiting
from tests.conftest import queued_calls, run_queued_calls
from tests.worker.conftest import fault_at, manual_reaper  # noqa: F401  (fixtures)
from worker.nodes.simulated.docker import Docker
from worker.nodes.simulated.guests import Guest
from worker.sync import guest_agents

COMPOSE_FILE = b"""
services:
  web:
    image: nginx:1.28
    ports: ["8080:80"]
    environment: {GREETING: "${GREETING}"}
"""

DOCKER_PATHS = {"owner": "/api/instance/{}/docker", "admin": "/api/v1/instance/{}/docker"}


class DockerClient:
    """The machine, and what people ask of its Docker by the API."""

    def __init__(self, as_, work, node, instance):
        self.as_, self.work, self.node, self.id = as_, work, node, instance.id

    @property
    def row(self):
        return session.get(Instance, self.id, populate_existing=True)

    def ask(self, method="GET", path="", who="owner", **body):
        options = {"json": body} if body else {}
        return self.as_(who, method, f"{DOCKER_PATHS[who].format(self.id)}{path}", **options)

    def list_apps(self, who="owner"):
        answer = self.ask(who=who).json
        return answer["data"] if who == "admin" else answer

    def install(self):
        assert self.ask("POST", "/install").status_code == 200
        self.work()
        assert self.list_apps()["docker_enabled"] is True

    def deploy(self, slug="nginx", **more):
        """Has it deployed; gives it as it then is in the list."""
        answer = self.ask("POST", app_slug=slug, **more)
        assert answer.status_code == 200, answer.json
        self.work()
        return self.find(answer.json["deployment"]["id"])

    def compose(self, url, **more):
        answer = self.ask("POST", "/custom", app_name="Shop", compose_url=url, **more)
        assert answer.status_code == 200, answer.json
        self.work()
        return self.find(answer.json["deployment"]["id"])

    def find(self, deployment_id):
        return next((each for each in self.list_apps()["deployments"] if each["id"] == deployment_id), None)

    @property
    def guest(self):
        """Docker in the guest, behind the panel's back."""
        with self.node.state.snapshot() as db:
            return Docker(Guest(self.node.state, self.node._get_machine(db, self.id)))

    def power(self, action):
        assert self.as_("owner", "POST", f"/api/instance/{self.id}/power/{action}").status_code == 200
        self.work()

    def poll_agents(self):
        guest_agents.poll(self.row.hypervisor_id)
        session.expire_all()


@pytest.fixture
def docker_client(api_as, cast, run_tasks, node):
    """A machine of the owner that runs, without Docker yet."""
    instance = cast.instance(hostname="web.example.com")
    api_as(
        "owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id, "password": "x" * 9}
    )
    run_tasks()
    made = DockerClient(api_as, run_tasks, node, instance)
    made.poll_agents()
    return made


@pytest.fixture
def docker_ready(docker_client):
    """The same with Docker in it."""
    docker_client.install()
    return docker_client


@pytest.fixture
def inline_workers(monkeypatch):
    """Somebody works while a request waits."""
    monkeypatch.setattr(waiting.time, "sleep", lambda _: run_queued_calls())


def queued_tasks():
    """What workers were rung for and did not do yet."""
    return [function for function, _ in queued_calls]
