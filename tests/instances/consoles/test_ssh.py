"""Shells of instances, by both APIs."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock, jobs
from panel.core.db import session
from panel.models import ConsoleSession, Image, Instance
from panel.services import consoles
from tests.conftest import work_off
from tests.instances.consoles.conftest import minted, rows

USERS = ("POST /api/instance/{}/ssh-session", "GET /api/instance/{}/webssh")

SHELLS = [("owner", *USERS[0].split()), ("owner", *USERS[1].split()), ("admin", "GET", "/api/v1/instance/{}/ssh")]


@pytest.mark.parametrize(("who", "method", "path"), SHELLS)
def test_a_shell_is_minted(as_, running, workers, who, method, path):
    """SSH-01, SSH-02, SSH-03, SSH-04, SSH-05, SSH-23."""
    answer = as_(who, method, path.format(running.id))
    found = minted(answer, who)
    assert found.keys() == {"token", "session_id", "task_id", "ws_url", "expires_in"}
    assert found["expires_in"] == 900
    assert found["ws_url"] == f"ws://panel.example.com:8000/ssh/{found['token']}"
    assert answer.headers["Cache-Control"] == "no-store"
    again = minted(as_(who, method, path.format(running.id)), who)
    assert len(found["token"]) >= 40
    assert again["token"] != found["token"]
    task = as_("owner", "GET", f"/api/instance/{running.id}/task/{found['task_id']}").json["task"]
    assert (task["kind"], task["status"]) == ("instance_ssh_session", "completed")
    row = session.get(ConsoleSession, found["session_id"])
    assert (row.host, row.port, row.user) == (running.ipv4, 22, "root")
    assert row.expires_at - row.created_at < timedelta(seconds=901)


@pytest.mark.parametrize(("who", "method", "path"), SHELLS)
def test_a_shell_that_cannot_be_opened_says_why(as_, running, workers, cast, node, who, method, path):
    """SSH-15, SSH-17, SSH-18, SSH-19, SSH-21, SSH-22."""

    def refused():
        answer = as_(who, method, path.format(running.id))
        assert answer.status_code >= 400
        assert answer.json["success"] is False
        assert not {"token", "ws_url", "data"} & set(answer.json)
        return answer.status_code, answer.json.get("reason")

    node.set_guest(running.id, agent=False)
    assert refused() == (503, "ssh_key_injection_failed")
    [row] = rows()
    assert row.state == "expired"
    node.set_guest(running.id, agent=True)
    instance, image = session.get(Instance, running.id), session.get(Image, cast.image.id)
    image.type = "windows"
    session.commit()
    assert refused() == (422, "unsupported_os")
    session.get(Image, cast.image.id).type = "linux"
    instance = session.get(Instance, running.id)
    instance.ipv4 = instance.ipv6 = None
    session.commit()
    assert refused() == (422, None)
    session.get(Instance, running.id).power = "off"
    session.commit()
    assert refused() == (409, "instance_not_running")


@pytest.mark.parametrize(("who", "method", "path"), SHELLS)
def test_a_shell_whose_node_is_silent_has_no_reason(as_, running, workers, node, who, method, path):
    """SSH-20."""
    before = node.options
    node.options = replace(before, deadline=0.01)
    node.fault("agent_run", "silent")
    try:
        answer = as_(who, method, path.format(running.id))
    finally:
        node.options = before
        node.clear()
    assert (answer.status_code, "reason" in answer.json) == (503, False)
    assert answer.json["success"] is False


def test_a_shell_needs_a_node(running):
    """SSH-16. Every instance has one here from the moment it is ordered, so no row can show this through the API."""
    with session.no_autoflush:
        instance = session.get(Instance, running.id)
        instance.hypervisor_id = None
        refused = consoles.shell_refusal(instance)
        session.rollback()
    assert (refused.status, refused.reason) == (409, "no_hypervisor")


def test_without_a_worker_a_shell_is_refused_in_the_end(as_, running, monkeypatch):
    """SSH-20. The task that was not begun is cancelled, so that no key appears later."""
    monkeypatch.setattr(jobs.time, "sleep", lambda _: None)
    times = iter(range(0, 1000, 10))
    monkeypatch.setattr(jobs.time, "monotonic", lambda: next(times))
    answer = as_("owner", "POST", f"/api/instance/{running.id}/ssh-session")
    assert (answer.status_code, "reason" in answer.json) == (503, False)
    [row] = rows()
    assert row.state == "expired"
    work_off()
    session.expire_all()
    assert rows()[0].key_put_at is None


def test_the_key_is_in_the_guest_for_as_long_as_the_shell(as_, running, workers, node, work):
    found = minted(as_("owner", "POST", f"/api/instance/{running.id}/ssh-session"))
    row = session.get(ConsoleSession, found["session_id"])
    public_key, kept = row.public_key, session.scalar(select(ConsoleSession.private_key))
    assert "OPENSSH PRIVATE KEY" in kept
    assert public_key in node.authorized_keys(running.id)
    row.spent_at = clock.now()
    consoles.ended(row.id, reason="left", message="The browser closed the console.")
    session.commit()
    work()
    assert public_key not in node.authorized_keys(running.id)
    [row] = rows()
    assert row.key_removed_at
    assert row.private_key is None


def test_the_key_of_a_shell_that_nobody_opened_is_taken_out(as_, running, workers, node, work, monkeypatch):
    minted(as_("owner", "POST", f"/api/instance/{running.id}/ssh-session"))
    [row] = rows()
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + timedelta(minutes=16))
    jobs.call("worker.tasks.consoles.tidy")
    work()
    assert row.public_key not in node.authorized_keys(running.id)
    assert rows()[0].key_removed_at


def test_the_current_shell_is_shown_and_closed(as_, running, workers):
    path = f"/api/instance/{running.id}/ssh-session"
    assert as_("owner", "GET", path).json == {"active": False, "session": None}
    made = minted(as_("owner", "POST", path))
    found = as_("owner", "GET", path).json
    assert found["active"] is True
    assert found["session"]["session_id"] == made["session_id"]
    assert (found["session"]["state"], found["session"]["by"]) == ("fresh", "owner@example.com")
    assert made["token"] not in str(found)
    status = f"/api/v1/instance/{running.id}/ssh-session/status"
    assert as_("admin", "GET", status).json["data"]["session"]["session_id"] == made["session_id"]
    assert as_("owner", "DELETE", path).json["success"] is True
    assert as_("owner", "GET", path).json["active"] is False
    minted(as_("owner", "POST", path))
    assert as_("admin", "DELETE", f"/api/v1/instance/{running.id}/ssh-session").status_code == 200
    assert as_("admin", "GET", status).json["data"] == {"active": False, "session": None}
