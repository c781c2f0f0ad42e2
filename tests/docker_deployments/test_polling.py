"""Polling of apps, and apps when their instance changes."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import DockerDeployment, DockerEngine, Instance, Rescue, Task
from panel.services.instances import ownership
from tests.support.task_queue import list_queued_functions
from worker.sync import docker_polling


def poll_node(dock, on=timedelta(minutes=3)):
    """Poll the node as if the instance had been on for that long."""
    dock.instance.power_reported_at = clock.now() - on
    session.commit()
    dock.poll_agents()
    docker_polling.poll(dock.instance.hypervisor_id)
    session.expire_all()


def make_status_stale(minutes=4):
    """Set the last check of all apps to that many minutes ago."""
    for model in (DockerEngine, DockerDeployment):
        for row in session.scalars(select(model)):
            row.checked_at = clock.now() - timedelta(minutes=minutes)
    session.commit()


def crash_container(dock, deployment):
    project = dock.guest.project(deployment["project_name"])
    dock.guest.store_project(deployment["project_name"], {**project, "images": {"web": "crashing/app"}})


def test_poll_detects_dead_container(docker_ready):
    deployment = docker_ready.deploy()
    crash_container(docker_ready, deployment)
    poll_node(docker_ready)
    assert docker_ready.find_deployment(deployment["id"])["status"] == "running"
    make_status_stale()
    poll_node(docker_ready)
    broken = docker_ready.find_deployment(deployment["id"])
    assert (broken["status"], broken["error_message"]) == ("error", "The container of web ended with exit code 1.")
    assert broken["checked_at"] > deployment["checked_at"]


def test_poll_is_delayed_after_boot(docker_ready):
    deployment = docker_ready.deploy()
    crash_container(docker_ready, deployment)
    make_status_stale()
    poll_node(docker_ready, on=timedelta(minutes=1))
    assert docker_ready.find_deployment(deployment["id"])["status"] == "running"


def test_poll_detects_apps_stopped_or_removed_in_guest(docker_ready):
    stopped, removed = docker_ready.deploy(), docker_ready.deploy("redis", env_variables={"REDIS_PASSWORD": "a word"})
    docker_ready.guest.control(stopped["project_name"], "stop")
    docker_ready.guest.store_project(removed["project_name"], None)
    make_status_stale()
    poll_node(docker_ready)
    assert docker_ready.find_deployment(stopped["id"])["status"] == "stopped"
    gone = docker_ready.find_deployment(removed["id"])
    assert (gone["status"], gone["error_message"]) == (
        "error",
        "Its containers no longer exist in the instance. Deploy it again.",
    )


def test_poll_detects_removed_engine(docker_ready):
    deployment = docker_ready.deploy()
    docker_ready.guest.uninstall()
    make_status_stale()
    poll_node(docker_ready)
    listed = docker_ready.read_docker_state()
    assert listed["docker_enabled"] is False
    assert listed["deployments"][0]["error_message"] == "Docker is no longer installed in the instance."
    docker_ready.install()
    docker_ready.request("POST", f"/{deployment['id']}/retry")
    docker_ready.run_tasks()
    assert docker_ready.find_deployment(deployment["id"])["status"] == "running"


@pytest.mark.parametrize("state", ["suspended", "rescue", "off", "busy", "silent", None])
def test_poll_skips_unavailable_guests(docker_ready, state):
    deployment = docker_ready.deploy()
    crash_container(docker_ready, deployment)
    make_status_stale()
    docker_ready.instance.power_reported_at = clock.now() - timedelta(hours=2)
    session.commit()
    docker_ready.poll_agents()
    if state == "suspended":
        docker_ready.instance.suspended_reason = "admin"
    elif state == "rescue":
        session.add(Rescue(instance_id=docker_ready.id, since=clock.now(), password="x"))
    elif state == "off":
        docker_ready.instance.power = "off"
    elif state == "silent":
        docker_ready.instance.agent_seen_at = clock.now() - timedelta(hours=1)
    elif state == "busy":
        docker_ready.request("POST", f"/{deployment['id']}/stop")
    session.commit()
    docker_polling.poll(docker_ready.instance.hypervisor_id)
    assert docker_ready.find_deployment(deployment["id"])["status"] == ("running" if state else "error")


def test_app_action_during_poll_takes_precedence(docker_ready, monkeypatch):
    deployment = docker_ready.deploy()
    make_status_stale()
    real = docker_polling.docker.get_statuses

    def poll_with_delay(*args):
        statuses = real(*args)
        docker_ready.request("POST", f"/{deployment['id']}/stop")
        docker_ready.run_tasks()
        return statuses

    monkeypatch.setattr(docker_polling.docker, "get_statuses", poll_with_delay)
    poll_node(docker_ready)
    assert docker_ready.find_deployment(deployment["id"])["status"] == "stopped"


def test_failed_poll_keeps_known_status(docker_ready):
    deployment = docker_ready.deploy()
    make_status_stale()
    docker_ready.instance.power_reported_at = clock.now() - timedelta(hours=2)
    session.commit()
    docker_ready.poll_agents()
    docker_ready.node.fault("agent_run", "refuse", 2)
    docker_polling.poll(docker_ready.instance.hypervisor_id)
    docker_ready.node.clear()
    docker_ready.node.set_guest(docker_ready.id, agent=False)
    docker_polling.poll(docker_ready.instance.hypervisor_id)
    assert docker_ready.read_docker_state()["docker_enabled"] is True
    assert docker_ready.find_deployment(deployment["id"])["app_name"] == "nginx"


def test_poll_skips_nodes_without_docker(docker_client, cast):
    docker_polling.poll_all()
    assert list_queued_functions() == []
    docker_client.install()
    docker_polling.poll_all()
    assert list_queued_functions() == ["worker.tasks.docker_deployments.poll"]


def test_app_of_stopped_instance_is_removed_later(docker_ready):
    """The answer of the removal says that the containers are removed later."""
    deployment = docker_ready.deploy()
    docker_ready.power("poweroff")
    answer = docker_ready.request("DELETE", f"/{deployment['id']}")
    assert (answer.status_code, "task_id" in answer.json) == (200, False)
    assert "its containers are removed as soon as it can be reached" in answer.json["message"]
    assert docker_ready.read_docker_state()["deployments"] == []
    docker_ready.power("start")
    assert docker_ready.guest.project(deployment["project_name"])["runs"] is True
    poll_node(docker_ready)
    docker_ready.run_tasks()
    assert docker_ready.guest.project(deployment["project_name"]) is None
    engine = session.get(DockerEngine, docker_ready.id)
    assert (engine.leftover, engine.has_leftover) == ({}, False)


def test_leftover_removal_is_requested_once_when_guest_is_reachable(docker_ready):
    deployment = docker_ready.deploy()
    docker_ready.power("poweroff")
    docker_ready.request("DELETE", f"/{deployment['id']}")
    removals = select(Task.status).where(Task.kind == "docker_remove", Task.resource_id == docker_ready.id)
    docker_polling.reconcile_leftovers(docker_ready.instance.hypervisor_id)
    assert session.scalars(removals).all() == []
    assert session.get(DockerEngine, docker_ready.id).has_leftover is True
    docker_ready.power("start")
    docker_ready.poll_agents()
    docker_polling.reconcile_leftovers("00000000-0000-7000-8000-000000000000")
    assert session.scalars(removals).all() == []
    for _ in range(2):
        docker_polling.reconcile_leftovers(docker_ready.instance.hypervisor_id)
        assert session.scalars(removals).all() == ["queued"]
    assert session.get(DockerEngine, docker_ready.id).has_leftover is False


def test_failed_removal_stops_after_six_attempts(docker_ready):
    deployment = docker_ready.deploy()
    docker_ready.node.fault("agent_run", "refuse")
    docker_ready.request("DELETE", f"/{deployment['id']}")
    docker_ready.run_tasks()
    for _ in range(9):
        poll_node(docker_ready)
        docker_ready.run_tasks()
    tries = session.scalars(select(Task).where(Task.kind == "docker_remove")).all()
    assert [task.status for task in tries] == ["failed"] * 6
    assert session.get(DockerEngine, docker_ready.id).has_leftover is False


def test_reinstall_removes_docker(docker_ready, cast):
    docker_ready.deploy()
    answer = docker_ready.api_as(
        "owner", "POST", f"/api/instance/{docker_ready.id}/reinstall", json={"image_id": cast.image.id}
    )
    assert answer.status_code == 200
    docker_ready.run_tasks()
    listed = docker_ready.read_docker_state()
    assert (listed["docker_enabled"], listed["deployments"]) == (False, [])
    docker_ready.poll_agents()
    docker_ready.install()
    assert docker_ready.deploy()["status"] == "running"


def test_snapshot_rollback_restores_apps(docker_ready):
    before = docker_ready.deploy()
    path = f"/api/instance/{docker_ready.id}/snapshot"
    docker_ready.api_as("owner", "POST", path, json={"snapname": "one"})
    docker_ready.run_tasks()
    after = docker_ready.deploy("redis", env_variables={"REDIS_PASSWORD": "a word"})
    assert (
        docker_ready.api_as("owner", "POST", f"{path}/rollback", json={"snapname": "one", "start": True}).status_code
        == 200
    )
    docker_ready.run_tasks()
    poll_node(docker_ready)
    assert docker_ready.find_deployment(before["id"])["status"] == "running"
    assert (
        docker_ready.find_deployment(after["id"])["error_message"]
        == "Its containers no longer exist in the instance. Deploy it again."
    )


def test_rollback_to_snapshot_without_docker(docker_client):
    path = f"/api/instance/{docker_client.id}/snapshot"
    docker_client.api_as("owner", "POST", path, json={"snapname": "one"})
    docker_client.run_tasks()
    docker_client.install()
    docker_client.api_as("owner", "POST", f"{path}/rollback", json={"snapname": "one", "start": True})
    docker_client.run_tasks()
    poll_node(docker_client)
    assert docker_client.read_docker_state()["docker_enabled"] is False
    docker_client.install()


def test_discarded_live_snapshot_sets_app_error(docker_ready):
    path = f"/api/instance/{docker_ready.id}/forge"
    assert docker_ready.api_as("owner", "POST", f"{path}/enable").status_code == 200
    docker_ready.run_tasks()
    deployment = docker_ready.deploy()
    assert docker_ready.api_as("owner", "POST", f"{path}/discard").status_code == 200
    docker_ready.run_tasks()
    poll_node(docker_ready)
    assert docker_ready.find_deployment(deployment["id"])["status"] == "error"


def test_instance_deletion_removes_apps(docker_ready):
    docker_ready.deploy()
    docker_ready.api_as("owner", "DELETE", f"/api/cloud-service/instances/{docker_ready.id}")
    docker_ready.run_tasks()
    assert session.get(Instance, docker_ready.id) is None
    assert session.scalars(select(DockerDeployment)).all() == session.scalars(select(DockerEngine)).all() == []


def test_apps_follow_instance_to_new_owner(docker_ready, cast):
    deployment = docker_ready.deploy()
    ownership.assign(docker_ready.instance, cast.outsider)
    session.commit()
    path = f"/api/instance/{docker_ready.id}/docker"
    assert docker_ready.api_as("owner", "GET", path).status_code == 404
    assert docker_ready.api_as("outsider", "GET", path).json["deployments"][0]["id"] == deployment["id"]
    assert docker_ready.api_as("outsider", "POST", f"{path}/{deployment['id']}/stop").status_code == 200


def test_hanging_guest_does_not_block_other_guests(docker_ready, monkeypatch):
    """The time limit ends the poll, and the order of guests varies."""
    polled = []

    def hang(node, guest):
        polled.append(guest)
        fake_time[0] += docker_polling.DOCKER_POLL_SECONDS + 1

    fake_time = [0.0]
    monkeypatch.setattr(docker_polling.time, "monotonic", lambda: fake_time[0])
    first = set()
    for _ in range(60):
        polled.clear()
        docker_polling.call_guests(
            docker_ready.instance.hypervisor_id, ["a", "b"], hang, fake_time[0] + docker_polling.DOCKER_POLL_SECONDS
        )
        assert len(polled) == 1
        first |= set(polled)
    assert first == {"a", "b"}
