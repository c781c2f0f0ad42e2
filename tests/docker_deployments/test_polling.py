"""What workers see without being asked, and what becomes of apps with their machine."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import DockerDeployment, DockerEngine, Instance, Rescue, Task
from panel.services.instances import ownership
from tests.docker_deployments.conftest import queued_tasks
from worker.sync import docker_polling


def poll_node(dock, on=timedelta(minutes=3)):
    """A look at everything of the node, when the machine has been on for so long."""
    dock.row.power_reported_at = clock.now() - on
    session.commit()
    dock.poll_agents()
    docker_polling.poll(dock.row.hypervisor_id)
    session.expire_all()


def make_stale(minutes=4):
    """Nobody looked for so long."""
    for model in (DockerEngine, DockerDeployment):
        for row in session.scalars(select(model)):
            row.checked_at = clock.now() - timedelta(minutes=minutes)
    session.commit()


def crash(dock, found):
    project = dock.guest.project(found["project_name"])
    dock.guest.store_project(found["project_name"], {**project, "images": {"web": "crashing/app"}})


def test_a_container_that_died_is_seen(docker_ready):
    found = docker_ready.deploy()
    crash(docker_ready, found)
    poll_node(docker_ready)
    assert docker_ready.find(found["id"])["status"] == "running"
    make_stale()
    poll_node(docker_ready)
    broken = docker_ready.find(found["id"])
    assert (broken["status"], broken["error_message"]) == ("error", "The container of web ended with exit code 1.")
    assert broken["checked_at"] > found["checked_at"]


def test_a_machine_that_boots_gets_time_to_start_them(docker_ready):
    found = docker_ready.deploy()
    crash(docker_ready, found)
    make_stale()
    poll_node(docker_ready, on=timedelta(minutes=1))
    assert docker_ready.find(found["id"])["status"] == "running"


def test_what_its_owner_did_in_the_machine_is_seen(docker_ready):
    stopped, removed = docker_ready.deploy(), docker_ready.deploy("redis", env_variables={"REDIS_PASSWORD": "a word"})
    docker_ready.guest.control(stopped["project_name"], "stop")
    docker_ready.guest.store_project(removed["project_name"], None)
    make_stale()
    poll_node(docker_ready)
    assert docker_ready.find(stopped["id"])["status"] == "stopped"
    gone = docker_ready.find(removed["id"])
    assert (gone["status"], gone["error_message"]) == (
        "error",
        "Its containers no longer exist in the instance. Deploy it again.",
    )


def test_an_engine_that_was_removed_is_seen(docker_ready):
    found = docker_ready.deploy()
    docker_ready.guest.uninstall()
    make_stale()
    poll_node(docker_ready)
    listed = docker_ready.list_apps()
    assert listed["docker_enabled"] is False
    assert listed["deployments"][0]["error_message"] == "Docker is no longer installed in the instance."
    docker_ready.install()
    docker_ready.ask("POST", f"/{found['id']}/retry")
    docker_ready.work()
    assert docker_ready.find(found["id"])["status"] == "running"


@pytest.mark.parametrize("state", ["suspended", "rescue", "off", "busy", "silent", None])
def test_guests_that_are_not_to_be_looked_into(docker_ready, state):
    found = docker_ready.deploy()
    crash(docker_ready, found)
    make_stale()
    docker_ready.row.power_reported_at = clock.now() - timedelta(hours=2)
    session.commit()
    docker_ready.poll_agents()
    if state == "suspended":
        docker_ready.row.suspended_reason = "admin"
    elif state == "rescue":
        session.add(Rescue(instance_id=docker_ready.id, since=clock.now(), password="x"))
    elif state == "off":
        docker_ready.row.power = "off"
    elif state == "silent":
        docker_ready.row.agent_seen_at = clock.now() - timedelta(hours=1)
    elif state == "busy":
        docker_ready.ask("POST", f"/{found['id']}/stop")
    session.commit()
    docker_polling.poll(docker_ready.row.hypervisor_id)
    assert docker_ready.find(found["id"])["status"] == ("running" if state else "error")


def test_what_somebody_does_meanwhile_counts_for_more(docker_ready, monkeypatch):
    found = docker_ready.deploy()
    make_stale()
    real = docker_polling.docker.statuses

    def slowly(*words):
        seen = real(*words)
        docker_ready.ask("POST", f"/{found['id']}/stop")
        docker_ready.work()
        return seen

    monkeypatch.setattr(docker_polling.docker, "statuses", slowly)
    poll_node(docker_ready)
    assert docker_ready.find(found["id"])["status"] == "stopped"


def test_a_silent_guest_keeps_what_is_known(docker_ready):
    found = docker_ready.deploy()
    make_stale()
    docker_ready.row.power_reported_at = clock.now() - timedelta(hours=2)
    session.commit()
    docker_ready.poll_agents()
    docker_ready.node.fault("agent_run", "refuse", 2)
    docker_polling.poll(docker_ready.row.hypervisor_id)
    docker_ready.node.clear()
    docker_ready.node.set_guest(docker_ready.id, agent=False)
    docker_polling.poll(docker_ready.row.hypervisor_id)
    assert docker_ready.list_apps()["docker_enabled"] is True
    assert docker_ready.find(found["id"])["app_name"] == "nginx"


def test_only_nodes_with_docker_are_looked_at(docker_client, cast):
    docker_polling.poll_all()
    assert queued_tasks() == []
    docker_client.install()
    docker_polling.poll_all()
    assert queued_tasks() == ["worker.tasks.docker_deployments.poll"]


def test_what_could_not_be_removed_is_removed_later(docker_ready):
    """The answer says so."""
    found = docker_ready.deploy()
    docker_ready.power("poweroff")
    answer = docker_ready.ask("DELETE", f"/{found['id']}")
    assert (answer.status_code, "task_id" in answer.json) == (200, False)
    assert "its containers stay on its disk until it is" in answer.json["message"]
    assert docker_ready.list_apps()["deployments"] == []
    docker_ready.power("start")
    assert docker_ready.guest.project(found["project_name"])["runs"] is True
    poll_node(docker_ready)
    docker_ready.work()
    assert docker_ready.guest.project(found["project_name"]) is None
    engine = session.get(DockerEngine, docker_ready.id)
    assert (engine.leftover, engine.has_leftover) == ({}, False)


def test_a_removal_that_fails_is_tried_a_few_times(docker_ready):
    found = docker_ready.deploy()
    docker_ready.node.fault("agent_run", "refuse")
    docker_ready.ask("DELETE", f"/{found['id']}")
    docker_ready.work()
    for _ in range(9):
        poll_node(docker_ready)
        docker_ready.work()
    tries = session.scalars(select(Task).where(Task.kind == "docker_remove")).all()
    assert [task.status for task in tries] == ["failed"] * 6
    assert session.get(DockerEngine, docker_ready.id).has_leftover is False


def test_a_new_system_has_no_docker(docker_ready, cast):
    docker_ready.deploy()
    answer = docker_ready.as_(
        "owner", "POST", f"/api/instance/{docker_ready.id}/reinstall", json={"image_id": cast.image.id}
    )
    assert answer.status_code == 200
    docker_ready.work()
    listed = docker_ready.list_apps()
    assert (listed["docker_enabled"], listed["deployments"]) == (False, [])
    docker_ready.poll_agents()
    docker_ready.install()
    assert docker_ready.deploy()["status"] == "running"


def test_a_snapshot_brings_back_what_there_was(docker_ready):
    before = docker_ready.deploy()
    path = f"/api/instance/{docker_ready.id}/snapshot"
    docker_ready.as_("owner", "POST", path, json={"snapname": "one"})
    docker_ready.work()
    after = docker_ready.deploy("redis", env_variables={"REDIS_PASSWORD": "a word"})
    assert (
        docker_ready.as_("owner", "POST", f"{path}/rollback", json={"snapname": "one", "start": True}).status_code
        == 200
    )
    docker_ready.work()
    poll_node(docker_ready)
    assert docker_ready.find(before["id"])["status"] == "running"
    assert (
        docker_ready.find(after["id"])["error_message"]
        == "Its containers no longer exist in the instance. Deploy it again."
    )


def test_a_snapshot_from_before_docker(docker_client):
    path = f"/api/instance/{docker_client.id}/snapshot"
    docker_client.as_("owner", "POST", path, json={"snapname": "one"})
    docker_client.work()
    docker_client.install()
    docker_client.as_("owner", "POST", f"{path}/rollback", json={"snapname": "one", "start": True})
    docker_client.work()
    poll_node(docker_client)
    assert docker_client.list_apps()["docker_enabled"] is False
    docker_client.install()


def test_a_live_session_that_is_discarded(docker_ready):
    path = f"/api/instance/{docker_ready.id}/forge"
    assert docker_ready.as_("owner", "POST", f"{path}/enable").status_code == 200
    docker_ready.work()
    found = docker_ready.deploy()
    assert docker_ready.as_("owner", "POST", f"{path}/discard").status_code == 200
    docker_ready.work()
    poll_node(docker_ready)
    assert docker_ready.find(found["id"])["status"] == "error"


def test_apps_go_with_their_machine(docker_ready):
    docker_ready.deploy()
    docker_ready.as_("owner", "DELETE", f"/api/cloud-service/instances/{docker_ready.id}")
    docker_ready.work()
    assert session.get(Instance, docker_ready.id) is None
    assert session.scalars(select(DockerDeployment)).all() == session.scalars(select(DockerEngine)).all() == []


def test_apps_go_along_to_another_owner(docker_ready, cast):
    found = docker_ready.deploy()
    ownership.assign(docker_ready.row, cast.outsider)
    session.commit()
    path = f"/api/instance/{docker_ready.id}/docker"
    assert docker_ready.as_("owner", "GET", path).status_code == 404
    assert docker_ready.as_("outsider", "GET", path).json["deployments"][0]["id"] == found["id"]
    assert docker_ready.as_("outsider", "POST", f"{path}/{found['id']}/stop").status_code == 200


def test_a_guest_that_hangs_holds_up_a_look_only_so_long(docker_ready, monkeypatch):
    """And it does not come first each time."""
    looked = []

    def hang(node, each):
        looked.append(each)
        clock_of_looks[0] += docker_polling.DOCKER_POLL_SECONDS + 1

    clock_of_looks = [0.0]
    monkeypatch.setattr(docker_polling.time, "monotonic", lambda: clock_of_looks[0])
    first = set()
    for _ in range(60):
        looked.clear()
        docker_polling.poll_each(
            docker_ready.row.hypervisor_id, ["a", "b"], hang, clock_of_looks[0] + docker_polling.DOCKER_POLL_SECONDS
        )
        assert len(looked) == 1
        first |= set(looked)
    assert first == {"a", "b"}
