"""What workers see without being asked, and what becomes of apps with their machine."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import DockerDeployment, DockerEngine, Instance, Rescue, Task
from panel.services.instances import ownership
from tests.docker_deployments.conftest import rung
from worker.sync import docker_polling


def look(dock, on=timedelta(minutes=3)):
    """A look at everything of the node, when the machine has been on for so long."""
    dock.row.power_at = clock.now() - on
    session.commit()
    dock.look_at_agents()
    docker_polling.look(dock.row.hypervisor_id)
    session.expire_all()


def age(minutes=4):
    """Nobody looked for so long."""
    for model in (DockerEngine, DockerDeployment):
        for row in session.scalars(select(model)):
            row.checked_at = clock.now() - timedelta(minutes=minutes)
    session.commit()


def crash(dock, found):
    project = dock.guest.project(found["project_name"])
    dock.guest.keep(found["project_name"], {**project, "images": {"web": "crashing/app"}})


def test_a_container_that_died_is_seen(ready):
    found = ready.deploy()
    crash(ready, found)
    look(ready)
    assert ready.find(found["id"])["status"] == "running"
    age()
    look(ready)
    broken = ready.find(found["id"])
    assert (broken["status"], broken["error_message"]) == ("error", "The container of web ended with exit code 1.")
    assert broken["checked_at"] > found["checked_at"]


def test_a_machine_that_boots_gets_time_to_start_them(ready):
    found = ready.deploy()
    crash(ready, found)
    age()
    look(ready, on=timedelta(minutes=1))
    assert ready.find(found["id"])["status"] == "running"


def test_what_its_owner_did_in_the_machine_is_seen(ready):
    stopped, removed = ready.deploy(), ready.deploy("redis", env_variables={"REDIS_PASSWORD": "a word"})
    ready.guest.control(stopped["project_name"], "stop")
    ready.guest.keep(removed["project_name"], None)
    age()
    look(ready)
    assert ready.find(stopped["id"])["status"] == "stopped"
    gone = ready.find(removed["id"])
    assert (gone["status"], gone["error_message"]) == (
        "error",
        "Its containers are gone from the machine. Deploy it again.",
    )


def test_an_engine_that_was_removed_is_seen(ready):
    found = ready.deploy()
    ready.guest.uninstall()
    age()
    look(ready)
    listed = ready.listed()
    assert listed["docker_enabled"] is False
    assert listed["deployments"][0]["error_message"] == "Docker is not installed in the machine any more."
    ready.install()
    ready.ask("POST", f"/{found['id']}/retry")
    ready.work()
    assert ready.find(found["id"])["status"] == "running"


@pytest.mark.parametrize("state", ["suspended", "rescue", "off", "busy", "silent", None])
def test_guests_that_are_not_to_be_looked_into(ready, state):
    found = ready.deploy()
    crash(ready, found)
    age()
    ready.row.power_at = clock.now() - timedelta(hours=2)
    session.commit()
    ready.look_at_agents()
    if state == "suspended":
        ready.row.suspended_reason = "admin"
    elif state == "rescue":
        session.add(Rescue(instance_id=ready.id, since=clock.now(), password="x"))
    elif state == "off":
        ready.row.power = "off"
    elif state == "silent":
        ready.row.agent_seen_at = clock.now() - timedelta(hours=1)
    elif state == "busy":
        ready.ask("POST", f"/{found['id']}/stop")
    session.commit()
    docker_polling.look(ready.row.hypervisor_id)
    assert ready.find(found["id"])["status"] == ("running" if state else "error")


def test_what_somebody_does_meanwhile_counts_for_more(ready, monkeypatch):
    found = ready.deploy()
    age()
    real = docker_polling.docker.statuses

    def slowly(*words):
        seen = real(*words)
        ready.ask("POST", f"/{found['id']}/stop")
        ready.work()
        return seen

    monkeypatch.setattr(docker_polling.docker, "statuses", slowly)
    look(ready)
    assert ready.find(found["id"])["status"] == "stopped"


def test_a_silent_guest_keeps_what_is_known(ready):
    found = ready.deploy()
    age()
    ready.row.power_at = clock.now() - timedelta(hours=2)
    session.commit()
    ready.look_at_agents()
    ready.node.fault("agent_run", "refuse", 2)
    docker_polling.look(ready.row.hypervisor_id)
    ready.node.clear()
    ready.node.set_guest(ready.id, agent=False)
    docker_polling.look(ready.row.hypervisor_id)
    assert ready.listed()["docker_enabled"] is True
    assert ready.find(found["id"])["app_name"] == "nginx"


def test_only_nodes_with_docker_are_looked_at(dock, cast):
    docker_polling.look_everywhere()
    assert rung() == []
    dock.install()
    docker_polling.look_everywhere()
    assert rung() == ["worker.tasks.docker_deployments.look"]


def test_what_could_not_be_removed_is_removed_later(ready):
    """The answer says so."""
    found = ready.deploy()
    ready.power("poweroff")
    answer = ready.ask("DELETE", f"/{found['id']}")
    assert (answer.status_code, "task_id" in answer.json) == (200, False)
    assert "its containers stay on its disk until it is" in answer.json["message"]
    assert ready.listed()["deployments"] == []
    ready.power("start")
    assert ready.guest.project(found["project_name"])["runs"] is True
    look(ready)
    ready.work()
    assert ready.guest.project(found["project_name"]) is None
    engine = session.get(DockerEngine, ready.id)
    assert (engine.leftover, engine.has_leftover) == ({}, False)


def test_a_removal_that_fails_is_tried_a_few_times(ready):
    found = ready.deploy()
    ready.node.fault("agent_run", "refuse")
    ready.ask("DELETE", f"/{found['id']}")
    ready.work()
    for _ in range(9):
        look(ready)
        ready.work()
    tries = session.scalars(select(Task).where(Task.kind == "docker_remove")).all()
    assert [task.status for task in tries] == ["failed"] * 6
    assert session.get(DockerEngine, ready.id).has_leftover is False


def test_a_new_system_has_no_docker(ready, cast):
    ready.deploy()
    answer = ready.as_("owner", "POST", f"/api/instance/{ready.id}/reinstall", json={"image_id": cast.image.id})
    assert answer.status_code == 200
    ready.work()
    listed = ready.listed()
    assert (listed["docker_enabled"], listed["deployments"]) == (False, [])
    ready.look_at_agents()
    ready.install()
    assert ready.deploy()["status"] == "running"


def test_a_snapshot_brings_back_what_there_was(ready):
    before = ready.deploy()
    path = f"/api/instance/{ready.id}/snapshot"
    ready.as_("owner", "POST", path, json={"snapname": "one"})
    ready.work()
    after = ready.deploy("redis", env_variables={"REDIS_PASSWORD": "a word"})
    assert ready.as_("owner", "POST", f"{path}/rollback", json={"snapname": "one", "start": True}).status_code == 200
    ready.work()
    look(ready)
    assert ready.find(before["id"])["status"] == "running"
    assert ready.find(after["id"])["error_message"] == "Its containers are gone from the machine. Deploy it again."


def test_a_snapshot_from_before_docker(dock):
    path = f"/api/instance/{dock.id}/snapshot"
    dock.as_("owner", "POST", path, json={"snapname": "one"})
    dock.work()
    dock.install()
    dock.as_("owner", "POST", f"{path}/rollback", json={"snapname": "one", "start": True})
    dock.work()
    look(dock)
    assert dock.listed()["docker_enabled"] is False
    dock.install()


def test_a_live_session_that_is_discarded(ready):
    path = f"/api/instance/{ready.id}/forge"
    assert ready.as_("owner", "POST", f"{path}/enable").status_code == 200
    ready.work()
    found = ready.deploy()
    assert ready.as_("owner", "POST", f"{path}/discard").status_code == 200
    ready.work()
    look(ready)
    assert ready.find(found["id"])["status"] == "error"


def test_apps_go_with_their_machine(ready):
    ready.deploy()
    ready.as_("owner", "DELETE", f"/api/cloud-service/instances/{ready.id}")
    ready.work()
    assert session.get(Instance, ready.id) is None
    assert session.scalars(select(DockerDeployment)).all() == session.scalars(select(DockerEngine)).all() == []


def test_apps_go_along_to_another_owner(ready, cast):
    found = ready.deploy()
    ownership.assign(ready.row, cast.outsider)
    session.commit()
    path = f"/api/instance/{ready.id}/docker"
    assert ready.as_("owner", "GET", path).status_code == 404
    assert ready.as_("outsider", "GET", path).json["deployments"][0]["id"] == found["id"]
    assert ready.as_("outsider", "POST", f"{path}/{found['id']}/stop").status_code == 200


def test_a_guest_that_hangs_holds_up_a_look_only_so_long(ready, monkeypatch):
    """And it does not come first each time."""
    looked = []

    def hang(node, each):
        looked.append(each)
        clock_of_looks[0] += docker_polling.TIME + 1

    clock_of_looks = [0.0]
    monkeypatch.setattr(docker_polling.time, "monotonic", lambda: clock_of_looks[0])
    first = set()
    for _ in range(60):
        looked.clear()
        docker_polling.each_in_turn(ready.row.hypervisor_id, ["a", "b"], hang, clock_of_looks[0] + docker_polling.TIME)
        assert len(looked) == 1
        first |= set(looked)
    assert first == {"a", "b"}
