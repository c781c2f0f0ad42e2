"""When nothing can be done with Docker in a machine, and what the refusal says."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor, Instance, Rescue
from panel.services.docker_deployments import refusals

SIDES = ["owner", "admin"]


def put(dock, **values):
    for name, value in values.items():
        setattr(dock.row, name, value)
    session.commit()


def suspended(dock):
    put(dock, suspended_reason="admin")


def migrating(dock):
    put(dock, migrating=True)


def off(dock):
    put(dock, power="off")


def in_rescue(dock):
    session.add(Rescue(instance_id=dock.id, since=dock.row.created_at, password="x"))
    session.commit()


def silent(dock):
    dock.node.set_guest(dock.id, agent=False)
    dock.look_at_agents()


def away(dock):
    session.get(Hypervisor, dock.row.hypervisor_id).status = "down"
    session.commit()


STATES = [
    (suspended, 409, "suspended"),
    (migrating, 409, "task_running"),
    (off, 422, "not_running"),
    (in_rescue, 409, "rescue_active"),
    (silent, 409, "agent_unavailable"),
    (away, 503, "hypervisor_unreachable"),
]


@pytest.mark.parametrize("who", SIDES)
@pytest.mark.parametrize(("state", "status", "reason"), STATES)
def test_nothing_is_done_in_a_guest_that_nobody_reaches(ready, state, status, reason, who):
    """Reference: docker; a machine that is off is a 422 there."""
    found = ready.deploy()
    state(ready)
    asks = [("", {"app_slug": "redis", "env_variables": {"REDIS_PASSWORD": "a word"}}), ("/install", {})]
    asks += [(f"/{found['id']}/{action}", {}) for action in ("start", "stop", "restart", "retry", "check-status")]
    for path, body in asks:
        answer = ready.ask("POST", path, who, **body)
        assert (answer.status_code, answer.json["reason"]) == (status, reason), path
    assert ready.find(found["id"])["status"] == "running"
    assert len(ready.listed()["deployments"]) == 1


@pytest.mark.parametrize("who", SIDES)
def test_a_machine_without_a_system_has_no_docker(as_, cast, who):
    path = f"/api{'/v1' if who == 'admin' else ''}/instance/{cast.instance().id}/docker"
    for rest in ("", "/install"):
        answer = as_(who, "POST", f"{path}{rest}", **({} if rest else {"json": {"app_slug": "nginx"}}))
        assert (answer.status_code, answer.json["reason"]) == (409, "not_deployed")
    listed = as_(who, "GET", path).json
    assert (listed["data"] if who == "admin" else listed)["docker_enabled"] is False


@pytest.mark.parametrize("who", SIDES)
def test_docker_comes_first(dock, who):
    answer = dock.ask("POST", "", who, app_slug="nginx")
    assert (answer.status_code, answer.json["reason"]) == (422, "docker_not_installed")
    dock.install()
    answer = dock.ask("POST", "/install", who)
    assert (answer.status_code, answer.json["reason"]) == (422, "already_installed")


def test_one_thing_at_a_time(dock):
    """Reference: docker: one in flight. Looking at an app, and removing one, are not in the way and wait their turn."""
    dock.ask("POST", "/install")
    again = dock.ask("POST", "/install")
    assert (again.status_code, again.json["reason"]) == (422, "docker_task_running")
    dock.work()
    made = dock.ask("POST", app_slug="nginx").json["deployment"]
    others = [("", {"app_slug": "grafana"}), *((f"/{made['id']}/{word}", {}) for word in ("stop", "retry"))]
    for path, body in others:
        answer = dock.ask("POST", path, **body)
        assert (answer.status_code, answer.json["reason"]) == (422, "docker_task_running"), path
    looks = [dock.ask("POST", f"/{made['id']}/check-status") for _ in range(2)]
    assert [look.status_code for look in looks] == [200, 200]
    assert looks[0].json["task_id"] == looks[1].json["task_id"]
    dock.work()
    assert dock.find(made["id"])["status"] == "running"


def test_a_machine_has_so_many_apps(ready, monkeypatch):
    monkeypatch.setattr(refusals, "MOST", 1)
    ready.deploy()
    answer = ready.ask("POST", app_slug="grafana", env_variables={"GRAFANA_ADMIN_PASSWORD": "a word"})
    assert (answer.status_code, answer.json["reason"]) == (422, "docker_limit")


@pytest.mark.parametrize("who", SIDES)
def test_an_app_of_a_suspended_machine_is_not_removed(ready, who):
    found = ready.deploy()
    suspended(ready)
    answer = ready.ask("DELETE", f"/{found['id']}", who)
    assert (answer.status_code, answer.json["reason"]) == (409, "suspended")
    assert ready.find(found["id"])


def test_what_was_not_deployed_is_not_started(ready, library):
    failed = ready.compose(library.put("/compose.yaml", b"services: {web: {image: missing/app}}"))
    assert failed["status"] == "failed"
    answer = ready.ask("POST", f"/{failed['id']}/start")
    assert (answer.status_code, answer.json["reason"]) == (409, "not_deployed")


def test_other_work_on_the_machine_is_in_the_way(ready, cast):
    """A reinstallation that waits for its turn."""
    answer = ready.as_("owner", "POST", f"/api/instance/{ready.id}/reinstall", json={"image_id": cast.image.id})
    assert answer.status_code == 200, answer.json
    refused = ready.ask("POST", app_slug="nginx")
    assert (refused.status_code, refused.json["reason"]) == (409, "task_running")
    assert session.get(Instance, ready.id).state == "pending"
