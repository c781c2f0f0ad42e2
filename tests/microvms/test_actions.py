"""Power, pause and resume of micro VMs, and their snapshots.

MVM-06, MVM-07.
"""

import pytest

from panel.core.db import session
from panel.models import Microvm, MicrovmSnapshot, Task
from worker.nodes.base import Power
from worker.tasks import microvms as tasks


def send(call_api, run_tasks, microvm, action, **body):
    """Send a request for an action, run its task, and return the state afterwards."""
    answer = call_api("POST", f"vm/{microvm.id}/{action}", **body)
    assert answer.status_code == 200, answer.json
    assert answer.json["vm"]["pending"]["task_id"] == answer.json["task_id"]
    run_tasks()
    return call_api("GET", f"vm/{microvm.id}").json["vm"]["state"]


def test_microvm_is_stopped_started_and_restarted(microvm, call_api, run_tasks, node):
    assert send(call_api, run_tasks, microvm, "stop") == "stopped"
    assert node.power(microvm.id) is Power.off
    assert send(call_api, run_tasks, microvm, "start") == "running"
    assert send(call_api, run_tasks, microvm, "restart") == "running"
    assert node.power(microvm.id) is Power.on


def test_microvm_is_paused_and_resumed_with_memory(microvm, call_api, run_tasks, node):
    """MVM-06"""
    answer = call_api("POST", f"vm/{microvm.id}/pause")
    assert answer.json["vm"]["state"] == "pausing"
    run_tasks()
    assert call_api("GET", f"vm/{microvm.id}").json["vm"]["state"] == "paused"
    assert (node.power(microvm.id), node.has_saved_state(microvm.id)) == (Power.off, True)
    assert send(call_api, run_tasks, microvm, "resume") == "running"
    assert (node.power(microvm.id), node.has_saved_state(microvm.id)) == (Power.on, False)


@pytest.mark.parametrize(
    ("state", "action", "reason"),
    [
        ("running", "start", "already_running"),
        ("running", "resume", "not_paused"),
        ("stopped", "pause", "not_running"),
        ("stopped", "stop", "not_running"),
        ("stopped", "restart", "not_running"),
        ("paused", "pause", "already_paused"),
        ("paused", "start", "microvm_paused"),
        ("paused", "stop", "microvm_paused"),
        ("paused", "snapshots", "microvm_paused"),
        ("pausing", "resume", "task_running"),
        ("starting", "stop", "task_running"),
        ("failed", "start", "microvm_failed"),
    ],
)
def test_action_is_refused_in_wrong_state(microvm, call_api, state, action, reason):
    microvm.state = state
    session.commit()
    answer = call_api("POST", f"vm/{microvm.id}/{action}")
    assert (answer.status_code, answer.json["reason"]) == (409, reason)
    assert session.get(Microvm, microvm.id, populate_existing=True).state == state


def test_second_action_during_a_task_is_refused(microvm, call_api):
    assert call_api("POST", f"vm/{microvm.id}/snapshots").status_code == 200
    answer = call_api("POST", f"vm/{microvm.id}/pause")
    assert (answer.status_code, answer.json["reason"]) == (409, "task_running")
    assert session.get(Microvm, microvm.id, populate_existing=True).state == "running"


def test_guest_that_ignores_shutdown_is_powered_off(microvm, call_api, run_tasks, node, monkeypatch):
    monkeypatch.setattr(tasks, "SHUTDOWN_TIMEOUT_SECONDS", 0)
    with node.state.transaction() as db:
        db.execute("UPDATE machines SET heeds_shutdown = 0")
    assert send(call_api, run_tasks, microvm, "stop") == "stopped"
    assert node.power(microvm.id) is Power.off


def test_failed_pause_leaves_microvm_running(microvm, call_api, run_tasks, node):
    node.fault("save", "full", 1)
    assert send(call_api, run_tasks, microvm, "pause") == "running"
    assert call_api("GET", f"vm/{microvm.id}").json["vm"]["error"]
    assert send(call_api, run_tasks, microvm, "pause") == "paused"
    assert call_api("GET", f"vm/{microvm.id}").json["vm"]["error"] is None


def test_resume_without_saved_memory_says_so(microvm, call_api, run_tasks, node):
    send(call_api, run_tasks, microvm, "pause")
    node.delete_saved_state(microvm.id)
    assert send(call_api, run_tasks, microvm, "resume") == "stopped"
    assert "memory is gone" in call_api("GET", f"vm/{microvm.id}").json["vm"]["error"]
    assert send(call_api, run_tasks, microvm, "start") == "running"


def test_clock_of_resumed_guest_is_set(microvm, call_api, run_tasks, node, monkeypatch):
    commands = []
    monkeypatch.setattr(
        type(node), "agent_run", lambda self, machine_id, command, **_: commands.append((machine_id, command[:3]))
    )
    send(call_api, run_tasks, microvm, "pause")
    send(call_api, run_tasks, microvm, "resume")
    assert commands == [(microvm.id, ["date", "-u", "-s"])]


def test_microvm_is_rolled_back_to_snapshot(microvm, call_api, run_tasks, node):
    """MVM-07"""
    answer = call_api("POST", f"vm/{microvm.id}/snapshots")
    taken = answer.json["snapshot"]
    assert (taken["name"], taken["status"], taken["has_memory"]) == ("snapshot-1", "creating", True)
    run_tasks()
    (listed,) = call_api("GET", f"vm/{microvm.id}/snapshots").json["data"]
    assert (listed["id"], listed["status"]) == (taken["id"], "available")
    assert send(call_api, run_tasks, microvm, "rollback", snapshot_id=taken["id"]) == "running"
    assert call_api("GET", f"vm/{microvm.id}/snapshots").json["data"][0]["status"] == "available"
    assert node.power(microvm.id) is Power.on


@pytest.mark.parametrize("state", ["stopped", "paused", "running"])
def test_snapshot_without_memory_keeps_power(microvm, call_api, run_tasks, node, state):
    send(call_api, run_tasks, microvm, "stop")
    snapshot_id = call_api("POST", f"vm/{microvm.id}/snapshots", name="off").json["snapshot"]["id"]
    run_tasks()
    if state != "stopped":
        send(call_api, run_tasks, microvm, "start")
    if state == "paused":
        send(call_api, run_tasks, microvm, "pause")
    expected = "stopped" if state == "stopped" else "running"
    assert send(call_api, run_tasks, microvm, "rollback", snapshot_id=snapshot_id) == expected
    assert node.power(microvm.id) is (Power.off if expected == "stopped" else Power.on)


def test_snapshot_is_deleted(microvm, call_api, run_tasks):
    snapshot_id = call_api("POST", f"vm/{microvm.id}/snapshots", name="ready").json["snapshot"]["id"]
    taken = call_api("POST", f"vm/{microvm.id}/snapshots", name="ready")
    assert (taken.status_code, list(taken.json["errors"])) == (422, ["name"])
    assert call_api("DELETE", f"vm/{microvm.id}/snapshot/{snapshot_id}").json["reason"] == "task_running"
    run_tasks()
    assert call_api("DELETE", f"vm/{microvm.id}/snapshot/{snapshot_id}").status_code == 200
    run_tasks()
    assert call_api("GET", f"vm/{microvm.id}/snapshots").json["total"] == 0


def test_number_of_snapshots_is_limited(microvm, call_api):
    session.add_all(MicrovmSnapshot(microvm_id=microvm.id, name=f"s{number}") for number in range(10))
    session.commit()
    answer = call_api("POST", f"vm/{microvm.id}/snapshots")
    assert (answer.status_code, answer.json["reason"]) == (422, "snapshot_limit")


def test_tasks_are_listed_with_label_and_owner(microvm, api_as):
    (task,) = api_as("owner", "GET", "/api/tasks").json["data"]
    assert (task["kind"] if "kind" in task else task["operation"]) == "microvm_create"
    assert session.query(Task).one().account_id == microvm.account_id
