"""Snapshots of whole instances: what real clients send, and the state of the machine afterwards."""

import time

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Plan, Snapshot, Task
from panel.services import catalog, instances, snapshots
from panel.services.instances import state_reports
from worker.nodes.base import Power
from worker.nodes.simulated import SimulatedNode


def test_snapshot_rollback_restores_file(call_snapshot_api, take_snapshot, run_tasks, guest, machine):
    assert call_snapshot_api().json == {"success": True, "message": None, "snapshots": []}
    guest.write("before")
    snapshot = call_snapshot_api("POST", snapname="one", vmstate=False, description="first")
    assert snapshot.json.keys() == {"success", "message", "snapshot", "task_id"}
    assert session.get(Task, snapshot.json["task_id"]).lock == "storage"
    run_tasks()
    [row] = call_snapshot_api().json["snapshots"]
    assert {"name": "one", "description": "first", "vmstate": False, "parent": None}.items() <= row.items()
    assert row["status"] == "available"
    assert abs(row["snaptime"] - time.time()) < 100
    guest.write("after")
    back = call_snapshot_api("POST", "/rollback", snapname="one")
    assert session.get(Task, back.json["task_id"]).lock == "exclusive"
    assert call_snapshot_api().json["snapshots"][0]["status"] == "restoring"
    run_tasks()
    assert guest.read() == "before"
    assert (machine.state, call_snapshot_api().json["snapshots"][0]["status"]) == ("running", "available")
    assert call_snapshot_api("DELETE", snapname="one").status_code == 200
    run_tasks()
    assert call_snapshot_api().json["snapshots"] == []
    assert guest.read() == "before"


def test_snapshot_of_stopped_machine(call_snapshot_api, take_snapshot, api_as, run_tasks, guest, machine):
    guest.write("before")
    api_as("owner", "POST", f"/api/instance/{machine.id}/power/poweroff")
    run_tasks()
    assert take_snapshot("off", vmstate=True)["vmstate"] is False
    api_as("owner", "POST", f"/api/instance/{machine.id}/power/start")
    run_tasks()
    guest.write("after")
    call_snapshot_api("POST", "/rollback", snapname="off", start=False)
    run_tasks()
    assert machine.state == "stopped"
    call_snapshot_api("POST", "/rollback", snapname="off", start=True)
    run_tasks()
    assert (machine.state, guest.read()) == ("running", "before")


def test_rollback_with_memory_starts_stopped_machine(call_snapshot_api, take_snapshot, api_as, run_tasks, machine):
    assert take_snapshot("memory", vmstate=True)["vmstate"] is True
    api_as("owner", "POST", f"/api/instance/{machine.id}/power/poweroff")
    run_tasks()
    call_snapshot_api("POST", "/rollback", snapname="memory")
    run_tasks()
    assert machine.state == "running"


def test_rollback_ignores_late_power_report(call_snapshot_api, take_snapshot, run_tasks, node, machine, monkeypatch):
    """Reverting turns the machine on and off, and the node reports that meanwhile."""
    take_snapshot("disks", vmstate=False)
    revert = SimulatedNode.revert_snapshot

    def revert_and_report_power_on(*args):
        revert(*args)
        state_reports.report_power(*state_reports.lock_instances(machine.id), "on", at=clock.now())
        session.commit()

    monkeypatch.setattr(SimulatedNode, "revert_snapshot", revert_and_report_power_on)
    call_snapshot_api("POST", "/rollback", snapname="disks")
    run_tasks()
    assert (machine.state, node.power(machine.id)) == ("running", Power.on)


def test_snapshot_parents(call_snapshot_api, take_snapshot, run_tasks):
    for name, parent in (("a", None), ("b", "a"), ("c", "b")):
        assert take_snapshot(name)["parent"] == parent
    call_snapshot_api("POST", "/rollback", snapname="a")
    run_tasks()
    assert take_snapshot("d")["parent"] == "a"
    call_snapshot_api("DELETE", snapname="a")
    run_tasks()
    assert {snapshot["name"]: snapshot["parent"] for snapshot in call_snapshot_api().json["snapshots"]} == {
        "b": None,
        "c": "b",
        "d": None,
    }


def test_snapshot_names_are_validated(call_snapshot_api, take_snapshot, machine, cast):
    take_snapshot("same")
    for wrong in ("same", "", "a b", "-a", "x" * 65, "ä", "a\n"):
        answer = call_snapshot_api("POST", snapname=wrong)
        assert (answer.status_code, list(answer.json["errors"])) == (422, ["snapname"]), wrong
    assert call_snapshot_api("POST", vmstate=True).status_code == 422
    for method, action in (("POST", "/rollback"), ("DELETE", "")):
        assert call_snapshot_api(method, action, snapname="other").status_code == 404
    assert len(call_snapshot_api().json["snapshots"]) == 1


def test_snapshot_limit(call_snapshot_api, take_snapshot, machine):
    for number in range(snapshots.MAX_SNAPSHOTS_PER_INSTANCE):
        take_snapshot(f"s{number}")
    answer = call_snapshot_api("POST", snapname="more")
    assert (answer.status_code, answer.json["reason"]) == (422, "snapshot_limit")


def test_snapshot_list_takes_one_query(call_snapshot_api, take_snapshot, queries):
    for number in range(3):
        take_snapshot(f"s{number}")
    queries.clear()
    call_snapshot_api()
    assert len([sql for sql in queries if "FROM snapshots" in sql]) == 1


def test_snapshot_actions_refused_by_state(call_snapshot_api, take_snapshot, run_tasks, api_as, machine, cast):
    take_snapshot("one")
    forge = f"/api/instance/{machine.id}/forge"
    tries = (("POST", "", "two"), ("POST", "/rollback", "one"), ("DELETE", "", "one"))
    api_as("owner", "POST", f"{forge}/enable")

    def get_reasons():
        return {call_snapshot_api(method, action, snapname=name).json["reason"] for method, action, name in tries}

    assert get_reasons() == {"task_running"}
    run_tasks()
    assert get_reasons() == {"already_active"}
    api_as("owner", "POST", f"{forge}/commit")
    run_tasks()
    instances.suspend(machine, reason="admin", actor="test")
    session.commit()
    assert get_reasons() == {"suspended"}
    fresh = cast.instance()
    answer = api_as("owner", "POST", f"/api/instance/{fresh.id}/snapshot", json={"snapname": "a"})
    assert (answer.status_code, answer.json["reason"]) == (409, "not_deployed")


def test_snapshots_block_disk_changes(call_snapshot_api, take_snapshot, api_as, run_tasks, machine, cast):
    take_snapshot("one")
    answers = [
        api_as("admin", "POST", f"/api/v1/instance/{machine.id}/disks", json={"size": 1}),
        api_as("admin", "PATCH", f"/api/v1/instance/{machine.id}/disk/{machine.disks[0].id}", json={"size": 11}),
    ]
    group = session.get(Plan, cast.plan.id).group
    large = catalog.create_plan(group, name="L", cpu_cores=1, ram=512, storage=20)
    plan = catalog.create_plan(group, name="M", cpu_cores=1, ram=1024, storage=10)
    session.commit()
    change = f"/api/instance/{machine.id}/change-plan"
    answers.append(api_as("owner", "POST", change, json={"plan_id": large.id}))
    assert [(answer.status_code, answer.json["reason"]) for answer in answers] == [(409, "has_snapshots")] * 3
    assert api_as("owner", "POST", change, json={"plan_id": plan.id}).status_code == 200


def test_rollback_after_plan_change_skips_memory(
    call_snapshot_api, take_snapshot, api_as, run_tasks, machine, cast, guest
):
    guest.write("before")
    take_snapshot("one", vmstate=True)
    plan = catalog.create_plan(session.get(Plan, cast.plan.id).group, name="M", cpu_cores=2, ram=1024, storage=10)
    session.commit()
    api_as("owner", "POST", f"/api/instance/{machine.id}/change-plan", json={"plan_id": plan.id})
    run_tasks()
    back = call_snapshot_api("POST", "/rollback", snapname="one").json["task_id"]
    assert session.get(Task, back).arguments["memory"] is False
    run_tasks()
    assert (machine.state, machine.pending_ram, guest.read()) == ("running", None, "before")


def test_rollback_refused_after_disk_change(call_snapshot_api, take_snapshot, machine, second_disk):
    row = take_snapshot("one")
    session.get(Snapshot, row["id"]).disk_ids = [machine.disks[0].id]
    session.commit()
    answer = call_snapshot_api("POST", "/rollback", snapname="one")
    assert (answer.status_code, answer.json["reason"]) == (409, "disks_changed")


def test_snapshots_of_others_are_not_found(call_snapshot_api, take_snapshot, api_as, cast, machine):
    take_snapshot("one")
    other = cast.instance()
    path = f"/api/instance/{other.id}/snapshot"
    assert api_as("owner", "DELETE", path, json={"snapname": "one"}).status_code == 404
    assert (
        api_as("outsider", "DELETE", f"/api/instance/{machine.id}/snapshot", json={"snapname": "one"}).status_code
        == 404
    )


@pytest.mark.parametrize("kind", ["refuse", "lost-answer", "silent"])
def test_failed_snapshot_shows_error_and_can_be_deleted(call_snapshot_api, run_tasks, node, kind):
    node.fault("create_snapshot", kind, 1, 0.01)
    call_snapshot_api("POST", snapname="one")
    run_tasks()
    [row] = call_snapshot_api().json["snapshots"]
    assert (row["status"], bool(row["error"])) == ("failed", True)
    node.clear()
    assert call_snapshot_api("POST", "/rollback", snapname="one").json["reason"] == "snapshot_not_available"
    call_snapshot_api("DELETE", snapname="one")
    run_tasks()
    assert call_snapshot_api().json["snapshots"] == []


@pytest.mark.parametrize("step", ["revert_snapshot", "define", "start"])
def test_failed_rollback_can_be_retried(call_snapshot_api, take_snapshot, run_tasks, node, guest, step):
    guest.write("before")
    take_snapshot("one")
    guest.write("after")
    node.fault(step, "refuse", 1)
    call_snapshot_api("POST", "/rollback", snapname="one")
    run_tasks()
    [row] = call_snapshot_api().json["snapshots"]
    assert (row["status"], bool(row["error"])) == ("available", True)
    call_snapshot_api("POST", "/rollback", snapname="one", start=True)
    run_tasks()
    assert (guest.read(), call_snapshot_api().json["snapshots"][0]["error"]) == ("before", None)


def test_rollback_is_completed_after_worker_death(call_snapshot_api, take_snapshot, guest, machine, kill_worker_at):
    from tests.support.worker_faults import requeue_to_new_worker

    for step in ("revert_snapshot", "define", "start"):
        guest.write("before")
        take_snapshot(step)
        guest.write("after")
        task = session.get(Task, call_snapshot_api("POST", "/rollback", snapname=step).json["task_id"])
        kill_worker_at(task, step)
        assert requeue_to_new_worker(task).status == "completed"
        assert (guest.read(), machine.state) == ("before", "running")


def test_snapshots_page(browser_as, machine, run_tasks, guest):
    owner, path = browser_as("owner"), f"/instances/{machine.id}/snapshots"
    assert "Take a snapshot" in owner.get(path).text
    guest.write("before")
    assert owner.post(f"{path}/take", data={"snapname": "one", "vmstate": "true"}).status_code == 303
    run_tasks()
    guest.write("after")
    assert "one" in owner.get(path).text
    [snapshot] = machine.snapshots
    assert snapshot.vmstate is True
    refused = owner.post(f"{path}/take", data={"snapname": "one"})
    assert (refused.status_code, "This name is taken." in refused.text) == (422, True)
    page = owner.get(f"{path}/one/rollback").text  # typed confirmation, and counts of what is lost
    assert "Snapshot taken" in page
    assert "1 disk" in page
    wrong = owner.post(f"{path}/one/rollback", data={"typed": "two"})
    assert 'value="two"' in wrong.text
    assert (wrong.status_code, 'id="wrong-typed"' in wrong.text) == (422, True)
    assert guest.read() == "after"
    assert owner.post(f"{path}/one/rollback", data={"typed": "one"}).status_code == 303
    run_tasks()
    assert guest.read() == "before"
    assert owner.post(f"{path}/one/delete").status_code == 303
    run_tasks()
    assert machine.snapshots == []
    assert "needs instances.manage" in browser_as("viewer").get(path).text
    assert browser_as("outsider").post(f"{path}/one/delete").status_code == 404
