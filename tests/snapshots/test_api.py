"""Snapshots of whole instances: what real clients send, and what becomes of the machine."""

import time

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Plan, Snapshot, Task
from panel.services import catalog, instances, snapshots
from panel.services.instances import state_reports
from worker.nodes.base import Power
from worker.nodes.simulated import SimulatedNode


def test_there_and_back(call, take, work, guest, machine):
    assert call().json == {"success": True, "message": None, "snapshots": []}
    guest.write("before")
    made = call("POST", snapname="one", vmstate=False, description="first")
    assert made.json.keys() == {"success", "message", "snapshot", "task_id"}
    assert session.get(Task, made.json["task_id"]).lock == "storage"
    work()
    [row] = call().json["snapshots"]
    assert {"name": "one", "description": "first", "vmstate": False, "parent": None}.items() <= row.items()
    assert row["status"] == "available"
    assert abs(row["snaptime"] - time.time()) < 100
    guest.write("after")
    back = call("POST", "/rollback", snapname="one")
    assert session.get(Task, back.json["task_id"]).lock == "exclusive"
    assert call().json["snapshots"][0]["status"] == "restoring"
    work()
    assert guest.read() == "before"
    assert (machine.state, call().json["snapshots"][0]["status"]) == ("running", "available")
    assert call("DELETE", snapname="one").status_code == 200
    work()
    assert call().json["snapshots"] == []
    assert guest.read() == "before"


def test_of_a_stopped_machine(call, take, as_, work, guest, machine):
    guest.write("before")
    as_("owner", "POST", f"/api/instance/{machine.id}/power/poweroff")
    work()
    assert take("off", vmstate=True)["vmstate"] is False
    as_("owner", "POST", f"/api/instance/{machine.id}/power/start")
    work()
    guest.write("after")
    call("POST", "/rollback", snapname="off", start=False)
    work()
    assert machine.state == "stopped"
    call("POST", "/rollback", snapname="off", start=True)
    work()
    assert (machine.state, guest.read()) == ("running", "before")


def test_with_the_memory_it_goes_on_also_from_off(call, take, as_, work, machine):
    assert take("memory", vmstate=True)["vmstate"] is True
    as_("owner", "POST", f"/api/instance/{machine.id}/power/poweroff")
    work()
    call("POST", "/rollback", snapname="memory")
    work()
    assert machine.state == "running"


def test_a_late_report_keeps_nobody_off(call, take, work, node, machine, monkeypatch):
    """Reverting turns the machine on and off, and the node tells of it while it does."""
    take("disks", vmstate=False)
    revert = SimulatedNode.revert_snapshot

    def told_of(*args):
        revert(*args)
        state_reports.power(*state_reports.fresh(machine.id), "on", at=clock.now())
        session.commit()

    monkeypatch.setattr(SimulatedNode, "revert_snapshot", told_of)
    call("POST", "/rollback", snapname="disks")
    work()
    assert (machine.state, node.power(machine.id)) == ("running", Power.on)


def test_what_came_from_what(call, take, work):
    for name, parent in (("a", None), ("b", "a"), ("c", "b")):
        assert take(name)["parent"] == parent
    call("POST", "/rollback", snapname="a")
    work()
    assert take("d")["parent"] == "a"
    call("DELETE", snapname="a")
    work()
    assert {each["name"]: each["parent"] for each in call().json["snapshots"]} == {"b": None, "c": "b", "d": None}


def test_names(call, take, machine, cast):
    take("same")
    for wrong in ("same", "", "a b", "-a", "x" * 65, "ä", "a\n"):
        answer = call("POST", snapname=wrong)
        assert (answer.status_code, list(answer.json["errors"])) == (422, ["snapname"]), wrong
    assert call("POST", vmstate=True).status_code == 422
    for method, action in (("POST", "/rollback"), ("DELETE", "")):
        assert call(method, action, snapname="other").status_code == 404
    assert len(call().json["snapshots"]) == 1


def test_a_limit(call, take, machine):
    for number in range(snapshots.MOST):
        take(f"s{number}")
    answer = call("POST", snapname="more")
    assert (answer.status_code, answer.json["reason"]) == (422, "snapshot_limit")


def test_the_list_costs_one_question(call, take, queries):
    for number in range(3):
        take(f"s{number}")
    queries.clear()
    call()
    assert len([sql for sql in queries if "FROM snapshots" in sql]) == 1


def test_when_it_cannot_be_done(call, take, work, as_, machine, cast):
    take("one")
    forge = f"/api/instance/{machine.id}/forge"
    tries = (("POST", "", "two"), ("POST", "/rollback", "one"), ("DELETE", "", "one"))
    as_("owner", "POST", f"{forge}/enable")
    reasons = lambda: {call(method, action, snapname=name).json["reason"] for method, action, name in tries}  # noqa: E731
    assert reasons() == {"task_running"}
    work()
    assert reasons() == {"already_active"}
    as_("owner", "POST", f"{forge}/commit")
    work()
    instances.suspend(machine, reason="admin", actor="test")
    session.commit()
    assert reasons() == {"suspended"}
    fresh = cast.instance()
    answer = as_("owner", "POST", f"/api/instance/{fresh.id}/snapshot", json={"snapname": "a"})
    assert (answer.status_code, answer.json["reason"]) == (409, "not_deployed")


def test_disks_stay_as_they_are_while_there_are_snapshots(call, take, as_, work, machine, cast):
    take("one")
    answers = [
        as_("admin", "POST", f"/api/v1/instance/{machine.id}/disks", json={"size": 1}),
        as_("admin", "PATCH", f"/api/v1/instance/{machine.id}/disk/{machine.disks[0].id}", json={"size": 11}),
    ]
    group = session.get(Plan, cast.plan.id).group
    large = catalog.create_plan(group, name="L", cpu_cores=1, ram=512, storage=20)
    more = catalog.create_plan(group, name="M", cpu_cores=1, ram=1024, storage=10)
    session.commit()
    change = f"/api/instance/{machine.id}/change-plan"
    answers.append(as_("owner", "POST", change, json={"plan_id": large.id}))
    assert [(answer.status_code, answer.json["reason"]) for answer in answers] == [(409, "has_snapshots")] * 3
    assert as_("owner", "POST", change, json={"plan_id": more.id}).status_code == 200


def test_after_a_change_of_plan_the_memory_does_not_fit(call, take, as_, work, machine, cast, guest):
    guest.write("before")
    take("one", vmstate=True)
    more = catalog.create_plan(session.get(Plan, cast.plan.id).group, name="M", cpu_cores=2, ram=1024, storage=10)
    session.commit()
    as_("owner", "POST", f"/api/instance/{machine.id}/change-plan", json={"plan_id": more.id})
    work()
    back = call("POST", "/rollback", snapname="one").json["task_id"]
    assert session.get(Task, back).arguments["memory"] is False
    work()
    assert (machine.state, machine.pending_ram, guest.read()) == ("running", None, "before")


def test_another_disk_by_now(call, take, machine, second_disk):
    row = take("one")
    session.get(Snapshot, row["id"]).disk_ids = [machine.disks[0].id]
    session.commit()
    answer = call("POST", "/rollback", snapname="one")
    assert (answer.status_code, answer.json["reason"]) == (409, "disks_changed")


def test_of_others(call, take, as_, cast, machine):
    take("one")
    other = cast.instance()
    path = f"/api/instance/{other.id}/snapshot"
    assert as_("owner", "DELETE", path, json={"snapname": "one"}).status_code == 404
    assert (
        as_("outsider", "DELETE", f"/api/instance/{machine.id}/snapshot", json={"snapname": "one"}).status_code == 404
    )


@pytest.mark.parametrize("kind", ["refuse", "lost-answer", "silent"])
def test_a_snapshot_that_failed_says_so(call, work, node, kind):
    node.fault("take_snapshot", kind, 1, 0.01)
    call("POST", snapname="one")
    work()
    [row] = call().json["snapshots"]
    assert (row["status"], bool(row["error"])) == ("failed", True)
    node.clear()
    assert call("POST", "/rollback", snapname="one").json["reason"] == "snapshot_not_available"
    call("DELETE", snapname="one")
    work()
    assert call().json["snapshots"] == []


@pytest.mark.parametrize("step", ["revert_snapshot", "define", "start"])
def test_a_rollback_that_failed_is_tried_again(call, take, work, node, guest, step):
    guest.write("before")
    take("one")
    guest.write("after")
    node.fault(step, "refuse", 1)
    call("POST", "/rollback", snapname="one")
    work()
    [row] = call().json["snapshots"]
    assert (row["status"], bool(row["error"])) == ("available", True)
    call("POST", "/rollback", snapname="one", start=True)
    work()
    assert (guest.read(), call().json["snapshots"][0]["error"]) == ("before", None)


def test_a_worker_dies_in_a_rollback(call, take, guest, machine, die):
    from tests.live_snapshots.test_faults import by_another_worker

    for step in ("revert_snapshot", "define", "start"):
        guest.write("before")
        take(step)
        guest.write("after")
        made = session.get(Task, call("POST", "/rollback", snapname=step).json["task_id"])
        die(made, step)
        assert by_another_worker(made).status == "completed"
        assert (guest.read(), machine.state) == ("before", "running")


def test_the_page(browse, machine, work, guest):
    owner, path = browse("owner"), f"/instances/{machine.id}/snapshots"
    assert "Take a snapshot" in owner.get(path).text
    guest.write("before")
    assert owner.post(f"{path}/take", data={"snapname": "one", "vmstate": "true"}).status_code == 303
    work()
    guest.write("after")
    assert "one" in owner.get(path).text
    [kept] = machine.snapshots
    assert kept.vmstate is True
    refused = owner.post(f"{path}/take", data={"snapname": "one"})
    assert (refused.status_code, "This name is taken." in refused.text) == (422, True)
    page = owner.get(f"{path}/one/rollback").text  # finding m29: the typed name, and what is lost in numbers
    assert "Snapshot taken" in page
    assert "1 disk" in page
    wrong = owner.post(f"{path}/one/rollback", data={"typed": "two"})
    assert (wrong.status_code, 'id="wrong-typed"' in wrong.text) == (422, True)
    assert guest.read() == "after"
    assert owner.post(f"{path}/one/rollback", data={"typed": "one"}).status_code == 303
    work()
    assert guest.read() == "before"
    assert owner.post(f"{path}/one/delete").status_code == 303
    work()
    assert machine.snapshots == []
    assert "needs instances.manage" in browse("viewer").get(path).text
    assert browse("outsider").post(f"{path}/one/delete").status_code == 404
