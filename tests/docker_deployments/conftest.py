"""A running instance with a guest agent, and a client for its Docker API."""

import pytest

from panel.core.db import session
from panel.models import Instance
from panel.workflows import waiting
from tests.support.task_queue import run_queued_calls
from tests.support.worker_faults import fault_at, manual_reaper  # noqa: F401  (fixtures)
from worker.nodes.simulated.docker import Docker
from worker.nodes.simulated.guests import Guest
from worker.sync import guest_agents

DOCKER_PATHS = {"owner": "/api/instance/{}/docker", "admin": "/api/v1/instance/{}/docker"}


class DockerClient:
    """Calls the Docker API of one instance."""

    def __init__(self, api_as, run_tasks, node, instance):
        self.api_as, self.run_tasks, self.node, self.id = api_as, run_tasks, node, instance.id

    @property
    def instance(self):
        return session.get(Instance, self.id, populate_existing=True)

    def request(self, method="GET", path="", caller="owner", **body):
        options = {"json": body} if body else {}
        return self.api_as(caller, method, f"{DOCKER_PATHS[caller].format(self.id)}{path}", **options)

    def read_docker_state(self, caller="owner"):
        answer = self.request(caller=caller).json
        return answer["data"] if caller == "admin" else answer

    def install(self):
        assert self.request("POST", "/install").status_code == 200
        self.run_tasks()
        assert self.read_docker_state()["docker_enabled"] is True

    def deploy(self, slug="nginx", **fields):
        """Deploy an app and return its deployment from the list."""
        answer = self.request("POST", app_slug=slug, **fields)
        assert answer.status_code == 200, answer.json
        self.run_tasks()
        return self.find_deployment(answer.json["deployment"]["id"])

    def deploy_compose(self, url, **fields):
        answer = self.request("POST", "/custom", app_name="Shop", compose_url=url, **fields)
        assert answer.status_code == 200, answer.json
        self.run_tasks()
        return self.find_deployment(answer.json["deployment"]["id"])

    def find_deployment(self, deployment_id):
        return next((row for row in self.read_docker_state()["deployments"] if row["id"] == deployment_id), None)

    @property
    def guest(self):
        """Docker in the guest, accessed without the panel."""
        with self.node.state.snapshot() as db:
            return Docker(Guest(self.node.state, self.node._get_machine(db, self.id)))

    def power(self, action):
        assert self.api_as("owner", "POST", f"/api/instance/{self.id}/power/{action}").status_code == 200
        self.run_tasks()

    def poll_agents(self):
        guest_agents.poll(self.instance.hypervisor_id)
        session.expire_all()


@pytest.fixture
def docker_client(api_as, cast, run_tasks, node):
    """The client of a running instance without Docker."""
    instance = cast.instance(hostname="web.example.com")
    api_as(
        "owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id, "password": "x" * 9}
    )
    run_tasks()
    client = DockerClient(api_as, run_tasks, node, instance)
    client.poll_agents()
    return client


@pytest.fixture
def docker_ready(docker_client):
    """The client of a running instance with Docker."""
    docker_client.install()
    return docker_client


@pytest.fixture
def inline_workers(monkeypatch):
    """Run queued tasks while a request waits for a result."""
    monkeypatch.setattr(waiting.time, "sleep", lambda _: run_queued_calls())
