"""Shells of instances, by both APIs."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock, jobs
from panel.core.db import session
from panel.models import ConsoleSession, Image, Instance
from panel.services import consoles
from panel.workflows import waiting
from tests.conftest import run_queued_calls
from tests.instances.consoles.conftest import console_sessions, created_session

USERS = ("POST /api/instance/{}/ssh-session", "GET /api/instance/{}/webssh")

SHELLS = [("owner", *USERS[0].split()), ("owner", *USERS[1].split()), ("admin", "GET", "/api/v1/instance/{}/ssh")]


@pytest.mark.parametrize(("who", "method", "path"), SHELLS)
def test_an_ssh_session_is_created(api_as, running, inline_workers, who, method, path):
    """SSH-01, SSH-02, SSH-03, SSH-04, SSH-05, SSH-23."""
    answer = api_as(who, method, path.format(running.id))
    found = created_session(answer, who)
    assert found.keys() == {"token", "session_id", "task_id", "ws_url", "expires_in"}
    assert found["expires_in"] == 900
    assert found["ws_url"] == f"ws://panel.example.com:8000/ssh/{found['token']}"
    assert answer.headers["Cache-Control"] == "no-store"
    again = created_session(api_as(who, method, path.format(running.id)), who)
    assert len(found["token"]) >= 40
    assert again["token"] != found["token"]
    task = api_as("owner", "GET", f"/api/instance/{running.id}/task/{found['task_id']}").json["task"]
    assert (task["kind"], task["status"]) == ("instance_ssh_session", "completed")
    row = session.get(ConsoleSession, found["session_id"])
    assert (row.host, row.port, row.user) == (running.ipv4, 22, "root")
    assert row.expires_at - row.created_at < timedelta(seconds=901)


@pytest.mark.parametrize(("who", "method", "path"), SHELLS)
def test_a_shell_that_cannot_be_opened_says_why(api_as, running, inline_workers, cast, node, who, method, path):
    """SSH-15, SSH-17, SSH-18, SSH-19, SSH-21, SSH-22."""

    def refused():
        answer = api_as(who, method, path.format(running.id))
        assert answer.status_code >= 400
        assert answer.json["success"] is False
        assert not {"token", "ws_url", "data"} & set(answer.json)
        return answer.status_code, answer.json.get("reason")

    node.set_guest(running.id, agent=False)
    assert refused() == (503, "ssh_key_injection_failed")
    [row] = console_sessions()
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
def test_a_shell_whose_node_is_silent_has_no_reason(api_as, running, inline_workers, node, who, method, path):
    """SSH-20."""
    before = node.options
    node.options = replace(before, deadline=0.01)
    node.fault("agent_run", "silent")
    try:
        answer = api_as(who, method, path.format(running.id))
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
        refused = consoles.shell_error(instance)
        session.rollback()
    assert (refused.status, refused.reason) == (409, "no_hypervisor")


def test_without_a_worker_a_shell_is_refused_in_the_end(api_as, running, monkeypatch):
    """SSH-20. The task that was not begun is cancelled, so that no key appears later."""
    monkeypatch.setattr(waiting.time, "sleep", lambda _: None)
    times = iter(range(0, 1000, 10))
    monkeypatch.setattr(waiting.time, "monotonic", lambda: next(times))
    answer = api_as("owner", "POST", f"/api/instance/{running.id}/ssh-session")
    assert (answer.status_code, "reason" in answer.json) == (503, False)
    [row] = console_sessions()
    assert row.state == "expired"
    run_queued_calls()
    session.expire_all()
    assert console_sessions()[0].key_put_at is None


def test_the_key_is_in_the_guest_for_as_long_as_the_shell(api_as, running, inline_workers, node, run_tasks):
    found = created_session(api_as("owner", "POST", f"/api/instance/{running.id}/ssh-session"))
    row = session.get(ConsoleSession, found["session_id"])
    public_key, kept = row.public_key, session.scalar(select(ConsoleSession.private_key))
    assert "OPENSSH PRIVATE KEY" in kept
    assert public_key in node.authorized_keys(running.id)
    row.redeemed_at = clock.now()
    consoles.record_ended(row.id, reason="left", message="The browser closed the console.")
    session.commit()
    run_tasks()
    assert public_key not in node.authorized_keys(running.id)
    [row] = console_sessions()
    assert row.key_removed_at
    assert row.private_key is None


def test_the_key_of_a_shell_that_nobody_opened_is_taken_out(
    api_as, running, inline_workers, node, run_tasks, monkeypatch
):
    created_session(api_as("owner", "POST", f"/api/instance/{running.id}/ssh-session"))
    [row] = console_sessions()
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + timedelta(minutes=16))
    jobs.enqueue_call("worker.tasks.consoles.sweep_sessions")
    run_tasks()
    assert row.public_key not in node.authorized_keys(running.id)
    assert console_sessions()[0].key_removed_at


def test_the_current_shell_is_shown_and_closed(api_as, running, inline_workers):
    path = f"/api/instance/{running.id}/ssh-session"
    assert api_as("owner", "GET", path).json == {"active": False, "session": None}
    made = created_session(api_as("owner", "POST", path))
    found = api_as("owner", "GET", path).json
    assert found["active"] is True
    assert found["session"]["session_id"] == made["session_id"]
    assert (found["session"]["state"], found["session"]["by"]) == ("fresh", "owner@example.com")
    assert made["token"] not in str(found)
    status = f"/api/v1/instance/{running.id}/ssh-session/status"
    assert api_as("admin", "GET", status).json["data"]["session"]["session_id"] == made["session_id"]
    assert api_as("owner", "DELETE", path).json["success"] is True
    assert api_as("owner", "GET", path).json["active"] is False
    created_session(api_as("owner", "POST", path))
    assert api_as("admin", "DELETE", f"/api/v1/instance/{running.id}/ssh-session").status_code == 200
    assert api_as("admin", "GET", status).json["data"] == {"active": False, "session": None}
