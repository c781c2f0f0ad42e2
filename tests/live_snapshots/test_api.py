"""Live-snapshot sessions in both APIs."""

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Forge, Task
from panel.services import instances
from worker.nodes.base import make_overlay_name

REASON_BY_ACTION = {"enable": "already_active", "commit": "no_active_session", "discard": "no_active_session"}


def assert_refused(answer, reason):
    assert (answer.status_code, answer.json["reason"]) == (409, reason)
    assert answer.json["message"].endswith(".")
    return True


def test_forge_commit_keeps_changes(call_forge_api, run_tasks, guest, machine):
    """FRG-01, FRG-02, FRG-03, FRG-04, FRG-07, FRG-18; OP-13: without a session it is null."""
    assert call_forge_api().json == {"active": False, "session": None}
    guest.write("before")
    answer = call_forge_api("POST", "enable")
    assert answer.status_code == 200
    assert answer.json.keys() == {"success", "message", "forge", "task_id"}
    assert call_forge_api().json["active"] is False
    assert call_forge_api().json["session"]["status"] == "creating"
    run_tasks()
    status = call_forge_api().json
    assert status["active"] is True
    assert status["session"]["status"] == "active"
    assert status["session"]["error"] is None
    assert [disk["id"] for disk in status["session"]["disks"]] == [machine.disks[0].id]
    guest.write("after")
    assert call_forge_api("POST", "commit").json["forge"]["status"] == "committing"
    run_tasks()
    status = call_forge_api().json
    assert (status["active"], status["session"]["status"]) == (False, "committed")
    assert status["session"]["ended_at"]
    assert guest.read() == "after"
    assert machine.state == "running"


def test_forge_discard_reverts_changes(call_forge_api, api_as, run_tasks, guest, machine, node):
    """FRG-16, FRG-18, FRG-21"""
    guest.write("before")
    call_forge_api("POST", "enable")
    run_tasks()
    guest.write("after")
    assert call_forge_api("POST", "discard").json["forge"]["status"] == "discarding"
    run_tasks()
    assert (call_forge_api().json["active"], call_forge_api().json["session"]["status"]) == (False, "discarded")
    assert guest.read() == "before"
    assert machine.state == "running"
    assert make_overlay_name(machine.disks[0].name) not in {disk.name for disk in node.disks("default")}
    for caller, path in (("owner", f"/api/instance/{machine.id}"), ("admin", f"/api/v1/instance/{machine.id}")):
        item = api_as(caller, "GET", path).json
        assert [forge["status"] for forge in item.get("data", item)["forges"]] == ["discarded"]


def test_forge_session_of_chosen_disks(call_forge_api, run_tasks, machine, second_disk, cast):
    """FRG-05, FRG-06"""
    foreign = cast.instance("outsider").disks[0]
    for wrong in ([foreign.id], [second_disk.id, "nonsense"]):
        answer = call_forge_api("POST", "enable", disk_ids=wrong)
        assert (answer.status_code, list(answer.json["errors"])) == (422, ["disk_ids"])
    assert call_forge_api().json["session"] is None
    both = [second_disk.id, machine.disks[0].id]
    call_forge_api("POST", "enable", disk_ids=both)
    run_tasks()
    assert {disk["id"] for disk in call_forge_api().json["session"]["disks"]} == set(both)
    assert call_forge_api().json["session"]["status"] == "active"


def test_forge_session_without_disks_uses_primary_disk(call_forge_api, run_tasks, machine, second_disk):
    """FRG-04: the public client always sends the list."""
    call_forge_api("POST", "enable", disk_ids=[])
    run_tasks()
    assert [disk["id"] for disk in call_forge_api().json["session"]["disks"]] == [machine.disks[0].id]


def test_forge_actions_on_stopped_machine_are_refused(call_forge_api, api_as, run_tasks, machine):
    """FRG-08"""
    api_as("owner", "POST", f"/api/instance/{machine.id}/power/poweroff")
    run_tasks()
    for action in REASON_BY_ACTION:
        assert assert_refused(call_forge_api("POST", action), "not_running")


def test_forge_actions_refuse_suspended_machine_first(call_forge_api, run_tasks, machine):
    """FRG-09, OP-13: `suspended` takes precedence over other reasons."""
    call_forge_api("POST", "enable")
    run_tasks()
    instances.suspend(machine, reason="admin", actor="test")
    session.commit()
    for again in range(2):
        for action in REASON_BY_ACTION:
            assert assert_refused(call_forge_api("POST", action), "suspended")
        assert call_forge_api().json["session"]["status"] == "active"
        if not again:
            run_tasks()


def test_forge_allows_one_session_at_a_time(call_forge_api, run_tasks):
    """FRG-10, FRG-12, FRG-13, FRG-17"""
    for action in ("commit", "discard"):
        assert assert_refused(call_forge_api("POST", action), "no_active_session")
    assert call_forge_api().json == {"active": False, "session": None}
    call_forge_api("POST", "enable")
    assert assert_refused(call_forge_api("POST", "enable"), "already_active")
    run_tasks()
    before = call_forge_api().json
    assert assert_refused(call_forge_api("POST", "enable"), "already_active")
    assert call_forge_api().json == before
    call_forge_api("POST", "commit")
    run_tasks()
    for action in ("commit", "discard"):
        assert assert_refused(call_forge_api("POST", action), "no_active_session")


@pytest.mark.parametrize("kind", ["instance_shutdown", "forge_commit", "snapshot_create"])
def test_forge_actions_during_other_task_are_refused(call_forge_api, run_tasks, machine, kind):
    """FRG-11: for each of the three actions; only `suspended` takes precedence."""
    call_forge_api("POST", "enable")
    run_tasks()
    lock = {"instance_shutdown": "light", "forge_commit": "exclusive"}.get(kind, "storage")
    session.add(Task(kind=kind, resource_type="instance", resource_id=machine.id, lock=lock, status="running"))
    session.commit()
    for action in REASON_BY_ACTION:
        assert assert_refused(call_forge_api("POST", action), "task_running")
    assert call_forge_api().json["session"]["status"] == "active"


def test_forge_commit_during_creation_is_refused(call_forge_api, run_tasks):
    """FRG-14: a commit right after the enable."""
    call_forge_api("POST", "enable")
    for action in ("commit", "discard"):
        assert assert_refused(call_forge_api("POST", action), "session_creating")
    run_tasks()
    assert call_forge_api().json["session"]["status"] == "active"


def test_failed_forge_session_can_be_enabled_again(call_forge_api, run_tasks, node, machine, guest):
    """FRG-03, FRG-15, FRG-17"""
    node.fault("create_overlays", "refuse", 1)
    call_forge_api("POST", "enable")
    run_tasks()
    answer = call_forge_api().json
    assert (answer["active"], answer["session"]["status"]) == (False, "failed")
    assert isinstance(answer["session"]["error"], str)
    for action in ("commit", "discard"):
        assert assert_refused(call_forge_api("POST", action), "session_failed")
    assert call_forge_api().json == answer
    guest.write("goes on")
    call_forge_api("POST", "enable")
    run_tasks()
    assert call_forge_api().json["session"]["status"] == "active"
    assert guest.read() == "goes on"


def test_last_ten_forge_sessions_are_listed_newest_first(call_forge_api, api_as, run_tasks, machine, queries):
    """FRG-19, FRG-20, FRG-21"""
    tasks = []
    for number in range(11):
        tasks.append(call_forge_api("POST", "enable").json["forge"]["id"])
        run_tasks()
        call_forge_api("POST", "commit" if number % 2 else "discard")
        run_tasks()
    paths = (("owner", f"/api/instance/{machine.id}"), ("admin", f"/api/v1/instance/{machine.id}"))
    for caller, path in paths:
        queries.clear()
        item = api_as(caller, "GET", path).json
        assert [forge["id"] for forge in item.get("data", item)["forges"]] == tasks[:0:-1]
        assert len([sql for sql in queries if "forges" in sql]) == 1
    assert session.scalars(select(Forge.id)).all()


def test_forge_routes_without_api_prefix(call_forge_api, run_tasks):
    """OP-02"""
    assert call_forge_api(prefix="").json == call_forge_api().json
    assert call_forge_api("POST", "enable", prefix="").json["forge"]["status"] == "creating"
    run_tasks()
    assert assert_refused(call_forge_api("POST", "enable", prefix=""), "already_active")
    assert call_forge_api("POST", "commit", prefix="").status_code == 200
    run_tasks()
    assert call_forge_api("POST", "enable", prefix="").status_code == 200
    assert assert_refused(call_forge_api("POST", "discard", prefix=""), "session_creating")
    assert call_forge_api(prefix="", caller="outsider").json["message"] == "No such instance."
    assert call_forge_api(prefix="", caller="nobody").status_code == 401


def test_operator_forge_routes(call_forge_api, run_tasks, guest):
    """FRG-21 and the operators' routes"""
    prefix = "/api/v1"
    assert call_forge_api(prefix=prefix, caller="admin").json["data"] == {"active": False, "session": None}
    guest.write("before")
    answer = call_forge_api("POST", "enable", prefix=prefix, caller="admin").json
    assert (answer["success"], answer["data"]["forge"]["status"]) == (True, "creating")
    run_tasks()
    guest.write("after")
    assert assert_refused(call_forge_api("POST", "enable", prefix=prefix, caller="admin"), "already_active")
    assert call_forge_api("POST", "discard", prefix=prefix, caller="admin").json["data"]["task_id"]
    run_tasks()
    assert guest.read() == "before"
    call_forge_api("POST", "enable", prefix=prefix, caller="admin")
    run_tasks()
    assert call_forge_api("POST", "commit", prefix=prefix, caller="admin").json["data"]["task_id"]
    run_tasks()
    assert call_forge_api(prefix=prefix, caller="admin").json["data"]["session"]["status"] == "committed"


def test_forge_session_timestamps(call_forge_api, run_tasks):
    before = clock.now()
    call_forge_api("POST", "enable")
    run_tasks()
    call_forge_api("POST", "commit")
    run_tasks()
    live_session = call_forge_api().json["session"]
    assert before.isoformat()[:19] <= live_session["created_at"][:19] <= live_session["ended_at"][:19]
