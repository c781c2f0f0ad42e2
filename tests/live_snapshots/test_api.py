"""Live-snapshot sessions by both APIs."""

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Forge, Task
from panel.services import instances
from worker.nodes.base import overlay_of

REASONS = {"enable": "already_active", "commit": "no_active_session", "discard": "no_active_session"}


def refused(answer, reason):
    assert (answer.status_code, answer.json["reason"]) == (409, reason)
    assert answer.json["message"].endswith(".")
    return True


def test_a_session_that_is_kept(call, work, guest, machine):
    """FRG-01, FRG-02, FRG-03, FRG-04, FRG-07, FRG-18; OP-13: without a session it is null."""
    assert call().json == {"active": False, "session": None}
    guest.write("before")
    made = call("POST", "enable")
    assert made.status_code == 200
    assert made.json.keys() == {"success", "message", "forge", "task_id"}
    assert call().json["active"] is False
    assert call().json["session"]["status"] == "creating"
    work()
    found = call().json
    assert found["active"] is True
    assert found["session"]["status"] == "active"
    assert found["session"]["error"] is None
    assert [disk["id"] for disk in found["session"]["disks"]] == [machine.disks[0].id]
    guest.write("after")
    assert call("POST", "commit").json["forge"]["status"] == "committing"
    work()
    found = call().json
    assert (found["active"], found["session"]["status"]) == (False, "committed")
    assert found["session"]["ended_at"]
    assert guest.read() == "after"
    assert machine.state == "running"


def test_a_session_that_is_given_up(call, as_, work, guest, machine, node):
    """FRG-16, FRG-18, FRG-21"""
    guest.write("before")
    call("POST", "enable")
    work()
    guest.write("after")
    assert call("POST", "discard").json["forge"]["status"] == "discarding"
    work()
    assert (call().json["active"], call().json["session"]["status"]) == (False, "discarded")
    assert guest.read() == "before"
    assert machine.state == "running"
    assert overlay_of(machine.disks[0].name) not in {disk.name for disk in node.disks("default")}
    for who, path in (("owner", f"/api/instance/{machine.id}"), ("admin", f"/api/v1/instance/{machine.id}")):
        item = as_(who, "GET", path).json
        assert [forge["status"] for forge in item.get("data", item)["forges"]] == ["discarded"]


def test_chosen_disks(call, work, machine, second_disk, cast):
    """FRG-05, FRG-06"""
    foreign = cast.instance("outsider").disks[0]
    for wrong in ([foreign.id], [second_disk.id, "nonsense"]):
        answer = call("POST", "enable", disk_ids=wrong)
        assert (answer.status_code, list(answer.json["errors"])) == (422, ["disk_ids"])
    assert call().json["session"] is None
    both = [second_disk.id, machine.disks[0].id]
    call("POST", "enable", disk_ids=both)
    work()
    assert {disk["id"] for disk in call().json["session"]["disks"]} == set(both)
    assert call().json["session"]["status"] == "active"


def test_nothing_chosen_is_the_first_disk(call, work, machine, second_disk):
    """FRG-04: the public client always sends the list."""
    call("POST", "enable", disk_ids=[])
    work()
    assert [disk["id"] for disk in call().json["session"]["disks"]] == [machine.disks[0].id]


def test_a_stopped_machine_has_no_sessions(call, as_, work, machine):
    """FRG-08"""
    as_("owner", "POST", f"/api/instance/{machine.id}/power/poweroff")
    work()
    for action in REASONS:
        assert refused(call("POST", action), "not_running")


def test_a_suspended_machine_refuses_everything_first(call, work, machine):
    """FRG-09, OP-13: `suspended` is told before what else is true."""
    call("POST", "enable")
    work()
    instances.suspend(machine, reason="admin", actor="test")
    session.commit()
    for again in range(2):
        for action in REASONS:
            assert refused(call("POST", action), "suspended")
        assert call().json["session"]["status"] == "active"
        if not again:
            work()


def test_one_session_at_a_time(call, work):
    """FRG-10, FRG-12, FRG-13, FRG-17"""
    for action in ("commit", "discard"):
        assert refused(call("POST", action), "no_active_session")
    assert call().json == {"active": False, "session": None}
    call("POST", "enable")
    assert refused(call("POST", "enable"), "already_active")
    work()
    before = call().json
    assert refused(call("POST", "enable"), "already_active")
    assert call().json == before
    call("POST", "commit")
    work()
    for action in ("commit", "discard"):
        assert refused(call("POST", action), "no_active_session")


@pytest.mark.parametrize("kind", ["instance_shutdown", "forge_commit", "snapshot_create"])
def test_other_work_is_waited_for(call, work, machine, kind):
    """FRG-11: in each of the three actions, and before everything but a suspension."""
    call("POST", "enable")
    work()
    lock = {"instance_shutdown": "light", "forge_commit": "exclusive"}.get(kind, "storage")
    session.add(Task(kind=kind, resource_type="instance", resource_id=machine.id, lock=lock, status="running"))
    session.commit()
    for action in REASONS:
        assert refused(call("POST", action), "task_running")
    assert call().json["session"]["status"] == "active"


def test_a_session_that_is_being_created(call, work):
    """FRG-14: a commit right after the enable."""
    call("POST", "enable")
    for action in ("commit", "discard"):
        assert refused(call("POST", action), "session_creating")
    work()
    assert call().json["session"]["status"] == "active"


def test_a_session_that_failed(call, work, node, machine, guest):
    """FRG-03, FRG-15, FRG-17: and another may be enabled."""
    node.fault("lay_overlays", "refuse", 1)
    call("POST", "enable")
    work()
    found = call().json
    assert (found["active"], found["session"]["status"]) == (False, "failed")
    assert isinstance(found["session"]["error"], str)
    for action in ("commit", "discard"):
        assert refused(call("POST", action), "session_failed")
    assert call().json == found
    guest.write("goes on")
    call("POST", "enable")
    work()
    assert call().json["session"]["status"] == "active"
    assert guest.read() == "goes on"


def test_ten_sessions_are_remembered_newest_first(call, as_, work, machine, queries):
    """FRG-19, FRG-20, FRG-21"""
    made = []
    for number in range(11):
        made.append(call("POST", "enable").json["forge"]["id"])
        work()
        call("POST", "commit" if number % 2 else "discard")
        work()
    paths = (("owner", f"/api/instance/{machine.id}"), ("admin", f"/api/v1/instance/{machine.id}"))
    for who, path in paths:
        queries.clear()
        item = as_(who, "GET", path).json
        assert [forge["id"] for forge in item.get("data", item)["forges"]] == made[:0:-1]
        assert len([sql for sql in queries if "forges" in sql]) == 1
    assert session.scalars(select(Forge.id)).all()


def test_the_paths_without_the_prefix(call, work):
    """OP-02"""
    assert call(prefix="").json == call().json
    assert call("POST", "enable", prefix="").json["forge"]["status"] == "creating"
    work()
    assert refused(call("POST", "enable", prefix=""), "already_active")
    assert call("POST", "commit", prefix="").status_code == 200
    work()
    assert call("POST", "enable", prefix="").status_code == 200
    assert refused(call("POST", "discard", prefix=""), "session_creating")
    assert call(prefix="", who="outsider").json["message"] == "No such instance."
    assert call(prefix="", who="nobody").status_code == 401


def test_operators(call, work, guest):
    """FRG-21 and the operators' routes"""
    prefix = "/api/v1"
    assert call(prefix=prefix, who="admin").json["data"] == {"active": False, "session": None}
    guest.write("before")
    made = call("POST", "enable", prefix=prefix, who="admin").json
    assert (made["success"], made["data"]["forge"]["status"]) == (True, "creating")
    work()
    guest.write("after")
    assert refused(call("POST", "enable", prefix=prefix, who="admin"), "already_active")
    assert call("POST", "discard", prefix=prefix, who="admin").json["data"]["task_id"]
    work()
    assert guest.read() == "before"
    call("POST", "enable", prefix=prefix, who="admin")
    work()
    assert call("POST", "commit", prefix=prefix, who="admin").json["data"]["task_id"]
    work()
    assert call(prefix=prefix, who="admin").json["data"]["session"]["status"] == "committed"


def test_times(call, work):
    before = clock.now()
    call("POST", "enable")
    work()
    call("POST", "commit")
    work()
    found = call().json["session"]
    assert before.isoformat()[:19] <= found["created_at"][:19] <= found["ended_at"][:19]
