"""Instance states in which Docker requests are refused, and the reasons."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor, Instance, Rescue
from panel.services.docker_deployments import refusals

CALLERS = ["owner", "admin"]


def set_instance_values(dock, **values):
    for name, value in values.items():
        setattr(dock.instance, name, value)
    session.commit()


def suspend_instance(dock):
    set_instance_values(dock, suspended_reason="admin")


def start_migration(dock):
    set_instance_values(dock, migrating=True)


def power_off(dock):
    set_instance_values(dock, power="off")


def enter_rescue(dock):
    session.add(Rescue(instance_id=dock.id, since=dock.instance.created_at, password="x"))
    session.commit()


def silence_agent(dock):
    dock.node.set_guest(dock.id, agent=False)
    dock.poll_agents()


def make_node_unreachable(dock):
    session.get(Hypervisor, dock.instance.hypervisor_id).status = "down"
    session.commit()


INSTANCE_STATES = [
    (suspend_instance, 409, "suspended"),
    (start_migration, 409, "task_running"),
    (power_off, 422, "not_running"),
    (enter_rescue, 409, "rescue_active"),
    (silence_agent, 409, "agent_unavailable"),
    (make_node_unreachable, 503, "hypervisor_unreachable"),
]


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize(("state", "status", "reason"), INSTANCE_STATES)
def test_docker_actions_are_refused_in_instance_state(docker_ready, state, status, reason, caller):
    """Reference: docker; a stopped instance is a 422 there."""
    deployment = docker_ready.deploy()
    state(docker_ready)
    requests = [("", {"app_slug": "redis", "env_variables": {"REDIS_PASSWORD": "a word"}}), ("/install", {})]
    requests += [
        (f"/{deployment['id']}/{action}", {}) for action in ("start", "stop", "restart", "retry", "check-status")
    ]
    for path, body in requests:
        answer = docker_ready.request("POST", path, caller, **body)
        assert (answer.status_code, answer.json["reason"]) == (status, reason), path
    assert docker_ready.find_deployment(deployment["id"])["status"] == "running"
    assert len(docker_ready.read_docker_state()["deployments"]) == 1


@pytest.mark.parametrize("caller", CALLERS)
def test_docker_is_refused_before_instance_deployment(api_as, cast, caller):
    path = f"/api{'/v1' if caller == 'admin' else ''}/instance/{cast.instance().id}/docker"
    for suffix in ("", "/install"):
        answer = api_as(caller, "POST", f"{path}{suffix}", **({} if suffix else {"json": {"app_slug": "nginx"}}))
        assert (answer.status_code, answer.json["reason"]) == (409, "not_deployed")
    listed = api_as(caller, "GET", path).json
    assert (listed["data"] if caller == "admin" else listed)["docker_enabled"] is False


@pytest.mark.parametrize("caller", CALLERS)
def test_app_requires_installed_docker(docker_client, caller):
    answer = docker_client.request("POST", "", caller, app_slug="nginx")
    assert (answer.status_code, answer.json["reason"]) == (422, "docker_not_installed")
    docker_client.install()
    answer = docker_client.request("POST", "/install", caller)
    assert (answer.status_code, answer.json["reason"]) == (422, "already_installed")


def test_second_docker_task_is_refused(docker_client):
    """Reference: docker: one in flight. Status checks and removals are accepted and queued."""
    docker_client.request("POST", "/install")
    again = docker_client.request("POST", "/install")
    assert (again.status_code, again.json["reason"]) == (422, "docker_task_running")
    docker_client.run_tasks()
    deployment = docker_client.request("POST", app_slug="nginx").json["deployment"]
    others = [("", {"app_slug": "grafana"}), *((f"/{deployment['id']}/{word}", {}) for word in ("stop", "retry"))]
    for path, body in others:
        answer = docker_client.request("POST", path, **body)
        assert (answer.status_code, answer.json["reason"]) == (422, "docker_task_running"), path
    checks = [docker_client.request("POST", f"/{deployment['id']}/check-status") for _ in range(2)]
    assert [check.status_code for check in checks] == [200, 200]
    assert checks[0].json["task_id"] == checks[1].json["task_id"]
    docker_client.run_tasks()
    assert docker_client.find_deployment(deployment["id"])["status"] == "running"


def test_app_limit_per_instance(docker_ready, monkeypatch):
    monkeypatch.setattr(refusals, "MAX_APPS_PER_INSTANCE", 1)
    docker_ready.deploy()
    answer = docker_ready.request("POST", app_slug="grafana", env_variables={"GRAFANA_ADMIN_PASSWORD": "a word"})
    assert (answer.status_code, answer.json["reason"]) == (422, "docker_limit")


@pytest.mark.parametrize("caller", CALLERS)
def test_app_removal_is_refused_while_suspended(docker_ready, caller):
    deployment = docker_ready.deploy()
    suspend_instance(docker_ready)
    answer = docker_ready.request("DELETE", f"/{deployment['id']}", caller)
    assert (answer.status_code, answer.json["reason"]) == (409, "suspended")
    assert docker_ready.find_deployment(deployment["id"])


def test_app_start_requires_successful_deployment(docker_ready, file_server):
    failed = docker_ready.deploy_compose(file_server.put("/compose.yaml", b"services: {web: {image: missing/app}}"))
    assert failed["status"] == "failed"
    answer = docker_ready.request("POST", f"/{failed['id']}/start")
    assert (answer.status_code, answer.json["reason"]) == (409, "not_deployed")


def test_app_deployment_is_refused_during_reinstall(docker_ready, cast):
    """The reinstallation is queued."""
    answer = docker_ready.api_as(
        "owner", "POST", f"/api/instance/{docker_ready.id}/reinstall", json={"image_id": cast.image.id}
    )
    assert answer.status_code == 200, answer.json
    refused = docker_ready.request("POST", app_slug="nginx")
    assert (refused.status_code, refused.json["reason"]) == (409, "task_running")
    assert session.get(Instance, docker_ready.id).state == "pending"
