"""Live sessions with worker deaths and node faults at every step: the guest keeps its disk or its changes."""

import pytest

from panel.core.db import session
from panel.models import Task
from panel.services import forges
from tests.support.worker_faults import fault_at, kill_worker_at, requeue_to_new_worker  # noqa: F401  (fixtures)
from worker.nodes.base import make_overlay_name

NODE_CALLS_BY_ACTION = {
    "commit": ("commit_overlay",),
    "discard": ("power_off", "discard_overlay", "define", "start"),
}


def list_disk_names(node):
    return {disk.name for disk in node.disks("default")}


@pytest.fixture
def request_session_action(machine, run_tasks):
    """Return a function that requests an action of the session and returns its task."""

    def request_action(action):
        _, task = getattr(forges, action)(machine, actor="owner@example.com")
        session.commit()
        return task

    return request_action


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("powered", ["on", "off"])
def test_forge_enable_is_resumed_after_worker_death(
    machine, node, guest, request_session_action, kill_worker_at, after, powered
):
    guest.write("before")
    task = request_session_action("enable")
    kill_worker_at(task, "create_overlays", after=after)
    guest.write("meanwhile")
    if powered == "off":
        node.power_off(machine.id)
    done = requeue_to_new_worker(task)
    assert done.status == ("completed" if powered == "on" else "failed")
    assert forges.find_latest(machine).status == ("active" if powered == "on" else "failed")
    assert (make_overlay_name(machine.disks[0].name) in list_disk_names(node)) == (powered == "on")
    node.start(machine.id)
    assert guest.read() == "meanwhile"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("action", ["commit", "discard"])
def test_forge_end_is_completed_after_worker_death(
    machine, node, guest, run_tasks, request_session_action, kill_worker_at, action, after
):
    for step in NODE_CALLS_BY_ACTION[action]:
        guest.write("before")
        request_session_action("enable")
        run_tasks()
        guest.write("after")
        task = request_session_action(action)
        kill_worker_at(task, step, after=after)
        assert requeue_to_new_worker(task).status == "completed", step
        assert guest.read() == ("after" if action == "commit" else "before"), step
        assert machine.disks[0].name in list_disk_names(node)
        assert make_overlay_name(machine.disks[0].name) not in list_disk_names(node)
        assert machine.state == "running"


def test_start_during_interrupted_discard_keeps_changes(
    machine, node, guest, run_tasks, request_session_action, kill_worker_at, api_as
):
    """The customer starts the machine after the worker died during the discard."""
    guest.write("before")
    request_session_action("enable")
    run_tasks()
    guest.write("after")
    discard_task = request_session_action("discard")
    kill_worker_at(discard_task, "power_off", after=True)
    task = session.get(Task, discard_task.id, populate_existing=True)
    task.worker, task.status = None, "cancelled"
    machine.power = "off"
    session.commit()
    api_as("owner", "POST", f"/api/instance/{machine.id}/power/start")
    run_tasks()
    assert guest.read() == "after"


@pytest.mark.parametrize("kind", ["refuse", "silent", "lost-answer"])
@pytest.mark.parametrize("action", ["commit", "discard"])
def test_forge_action_can_be_retried_after_node_fault(
    machine, node, guest, run_tasks, request_session_action, action, kind
):
    guest.write("before")
    request_session_action("enable")
    run_tasks()
    guest.write("after")
    step = {"commit": "commit_overlay", "discard": "discard_overlay"}[action]
    node.fault(step, kind, 1, 0.01)
    task = request_session_action(action)
    run_tasks()
    assert session.get(Task, task.id).status == "failed"
    forge = forges.find_latest(machine)
    assert (forge.status, bool(forge.error)) == ("active", True)
    node.clear()
    node.start(machine.id)
    run_tasks()
    machine.power = "on"
    session.commit()
    task = request_session_action(action)
    run_tasks()
    assert session.get(Task, task.id).status == "completed"
    assert guest.read() == ("after" if action == "commit" else "before")


def test_discard_after_partial_commit_is_refused(machine, node, run_tasks, request_session_action, api_as):
    request_session_action("enable")
    run_tasks()
    node.fault("commit_overlay", "refuse", 1)
    request_session_action("commit")
    run_tasks()
    answer = api_as("owner", "POST", f"/api/instance/{machine.id}/forge/discard")
    assert (answer.status_code, answer.json["reason"]) == (409, "session_failed")
    assert "Commit" in answer.json["message"]
    request_session_action("commit")
    run_tasks()
    assert forges.find_latest(machine).status == "committed"


def test_discard_succeeds_when_machine_does_not_start(machine, node, run_tasks, request_session_action):
    request_session_action("enable")
    run_tasks()
    node.fault("start", "refuse", 1)
    request_session_action("discard")
    run_tasks()
    forge = forges.find_latest(machine)
    assert (forge.status, bool(forge.error)) == ("discarded", True)
    assert machine.state == "stopped"


def test_destroy_deletes_overlays(machine, node, run_tasks, request_session_action, api_as):
    request_session_action("enable")
    run_tasks()
    api_as("owner", "DELETE", f"/api/cloud-service/instances/{machine.id}")
    run_tasks()
    assert not [name for name in list_disk_names(node) if name.startswith(machine.name)]
