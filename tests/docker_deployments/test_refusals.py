"""When nothing can be done with Docker in a machine, and what the refusal says."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor, Instance, Rescue
from panel.services.docker_deployments import refusals

SIDES = ["owner", "admin"]


def set_values(dock, **values):
    for name, value in values.items():
        setattr(dock.row, name, value)
    session.commit()


def suspend_instance(dock):
    set_values(dock, suspended_reason="admin")


def start_migration(dock):
    set_values(dock, migrating=True)


def power_off(dock):
    set_values(dock, power="off")


def enter_rescue(dock):
    session.add(Rescue(instance_id=dock.id, since=dock.row.created_at, password="x"))
    session.commit()


def silence_agent(dock):
    dock.node.set_guest(dock.id, agent=False)
    dock.poll_agents()


def make_node_unreachable(dock):
    session.get(Hypervisor, dock.row.hypervisor_id).status = "down"
    session.commit()


STATES = [
    (suspend_instance, 409, "suspended"),
    (start_migration, 409, "task_running"),
    (power_off, 422, "not_running"),
    (enter_rescue, 409, "rescue_active"),
    (silence_agent, 409, "agent_unavailable"),
    (make_node_unreachable, 503, "hypervisor_unreachable"),
]


@pytest.mark.parametrize("who", SIDES)
@pytest.mark.parametrize(("state", "status", "reason"), STATES)
def test_nothing_is_done_in_a_guest_that_nobody_reaches(docker_ready, state, status, reason, who):
    """Reference: docker; a machine that is off is a 422 there."""
    found = docker_ready.deploy()
    state(docker_ready)
    asks = [("", {"app_slug": "redis", "env_variables": {"REDIS_PASSWORD": "a word"}}), ("/install", {})]
    asks += [(f"/{found['id']}/{action}", {}) for action in ("start", "stop", "restart", "retry", "check-status")]
    for path, body in asks:
        answer = docker_ready.ask("POST", path, who, **body)
        assert (answer.status_code, answer.json["reason"]) == (status, reason), path
    assert docker_ready.find(found["id"])["status"] == "running"
    assert len(docker_ready.list_apps()["deployments"]) == 1


@pytest.mark.parametrize("who", SIDES)
def test_a_machine_without_a_system_has_no_docker(api_as, cast, who):
    path = f"/api{'/v1' if who == 'admin' else ''}/instance/{cast.instance().id}/docker"
    for rest in ("", "/install"):
        answer = api_as(who, "POST", f"{path}{rest}", **({} if rest else {"json": {"app_slug": "nginx"}}))
        assert (answer.status_code, answer.json["reason"]) == (409, "not_deployed")
    listed = api_as(who, "GET", path).json
    assert (listed["data"] if who == "admin" else listed)["docker_enabled"] is False


@pytest.mark.parametrize("who", SIDES)
def test_docker_comes_first(docker_client, who):
    answer = docker_client.ask("POST", "", who, app_slug="nginx")
    assert (answer.status_code, answer.json["reason"]) == (422, "docker_not_installed")
    docker_client.install()
    answer = docker_client.ask("POST", "/install", who)
    assert (answer.status_code, answer.json["reason"]) == (422, "already_installed")


def test_one_thing_at_a_time(docker_client):
    """Reference: docker: one in flight. Looking at an app, and removing one, are not in the way and wait their turn."""
    docker_client.ask("POST", "/install")
    again = docker_client.ask("POST", "/install")
    assert (again.status_code, again.json["reason"]) == (422, "docker_task_running")
    docker_client.work()
    made = docker_client.ask("POST", app_slug="nginx").json["deployment"]
    others = [("", {"app_slug": "grafana"}), *((f"/{made['id']}/{word}", {}) for word in ("stop", "retry"))]
    for path, body in others:
        answer = docker_client.ask("POST", path, **body)
        assert (answer.status_code, answer.json["reason"]) == (422, "docker_task_running"), path
    looks = [docker_client.ask("POST", f"/{made['id']}/check-status") for _ in range(2)]
    assert [look.status_code for look in looks] == [200, 200]
    assert looks[0].json["task_id"] == looks[1].json["task_id"]
    docker_client.work()
    assert docker_client.find(made["id"])["status"] == "running"


def test_a_machine_has_so_many_apps(docker_ready, monkeypatch):
    monkeypatch.setattr(refusals, "MAX_APPS_PER_INSTANCE", 1)
    docker_ready.deploy()
    answer = docker_ready.ask("POST", app_slug="grafana", env_variables={"GRAFANA_ADMIN_PASSWORD": "a word"})
    assert (answer.status_code, answer.json["reason"]) == (422, "docker_limit")


@pytest.mark.parametrize("who", SIDES)
def test_an_app_of_a_suspended_machine_is_not_removed(docker_ready, who):
    found = docker_ready.deploy()
    suspend_instance(docker_ready)
    answer = docker_ready.ask("DELETE", f"/{found['id']}", who)
    assert (answer.status_code, answer.json["reason"]) == (409, "suspended")
    assert docker_ready.find(found["id"])


def test_what_was_not_deployed_is_not_started(docker_ready, file_server):
    failed = docker_ready.compose(file_server.put("/compose.yaml", b"services: {web: {image: missing/app}}"))
    assert failed["status"] == "failed"
    answer = docker_ready.ask("POST", f"/{failed['id']}/start")
    assert (answer.status_code, answer.json["reason"]) == (409, "not_deployed")


def test_other_work_on_the_machine_is_in_the_way(docker_ready, cast):
    """A reinstallation that waits for its turn."""
    answer = docker_ready.as_(
        "owner", "POST", f"/api/instance/{docker_ready.id}/reinstall", json={"image_id": cast.image.id}
    )
    assert answer.status_code == 200, answer.json
    refused = docker_ready.ask("POST", app_slug="nginx")
    assert (refused.status_code, refused.json["reason"]) == (409, "task_running")
    assert session.get(Instance, docker_ready.id).state == "pending"
