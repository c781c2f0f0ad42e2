"""SSH sessions of instances in both APIs."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock, jobs
from panel.core.db import session
from panel.models import ConsoleSession, Image, Instance
from panel.services import consoles
from panel.workflows import waiting
from tests.instances.consoles.sessions import get_created_session, list_console_sessions
from tests.support.task_queue import run_queued_calls

CUSTOMER_SSH_ROUTES = ("POST /api/instance/{}/ssh-session", "GET /api/instance/{}/webssh")

SSH_ROUTES = [
    ("owner", *CUSTOMER_SSH_ROUTES[0].split()),
    ("owner", *CUSTOMER_SSH_ROUTES[1].split()),
    ("admin", "GET", "/api/v1/instance/{}/ssh"),
]


@pytest.mark.parametrize(("caller", "method", "path"), SSH_ROUTES)
def test_ssh_session_is_created(api_as, running_instance, inline_workers, caller, method, path):
    """SSH-01, SSH-02, SSH-03, SSH-04, SSH-05, SSH-23."""
    answer = api_as(caller, method, path.format(running_instance.id))
    console_session = get_created_session(answer, caller)
    assert console_session.keys() == {"token", "session_id", "task_id", "ws_url", "expires_in"}
    assert console_session["expires_in"] == 900
    assert console_session["ws_url"] == f"ws://panel.example.com:8000/ssh/{console_session['token']}"
    assert answer.headers["Cache-Control"] == "no-store"
    again = get_created_session(api_as(caller, method, path.format(running_instance.id)), caller)
    assert len(console_session["token"]) >= 40
    assert again["token"] != console_session["token"]
    task = api_as("owner", "GET", f"/api/instance/{running_instance.id}/task/{console_session['task_id']}").json["task"]
    assert (task["kind"], task["status"]) == ("instance_ssh_session", "completed")
    row = session.get(ConsoleSession, console_session["session_id"])
    assert (row.host, row.port, row.user) == (running_instance.ipv4, 22, "root")
    assert row.expires_at - row.created_at < timedelta(seconds=901)


@pytest.mark.parametrize(("caller", "method", "path"), SSH_ROUTES)
def test_ssh_session_refused_by_state_has_reason(
    api_as, running_instance, inline_workers, cast, node, caller, method, path
):
    """SSH-15, SSH-17, SSH-18, SSH-19, SSH-21, SSH-22."""

    def get_refusal():
        answer = api_as(caller, method, path.format(running_instance.id))
        assert answer.status_code >= 400
        assert answer.json["success"] is False
        assert not {"token", "ws_url", "data"} & set(answer.json)
        return answer.status_code, answer.json.get("reason")

    node.set_guest(running_instance.id, agent=False)
    assert get_refusal() == (503, "ssh_key_injection_failed")
    [row] = list_console_sessions()
    assert row.state == "expired"
    node.set_guest(running_instance.id, agent=True)
    instance, image = session.get(Instance, running_instance.id), session.get(Image, cast.image.id)
    image.type = "windows"
    session.commit()
    assert get_refusal() == (422, "unsupported_os")
    session.get(Image, cast.image.id).type = "linux"
    instance = session.get(Instance, running_instance.id)
    instance.ipv4 = instance.ipv6 = None
    session.commit()
    assert get_refusal() == (422, None)
    session.get(Instance, running_instance.id).power = "off"
    session.commit()
    assert get_refusal() == (409, "instance_not_running")


@pytest.mark.parametrize(("caller", "method", "path"), SSH_ROUTES)
def test_ssh_session_with_silent_node_has_no_reason(
    api_as, running_instance, inline_workers, node, caller, method, path
):
    """SSH-20."""
    before = node.options
    node.options = replace(before, deadline=0.01)
    node.fault("agent_run", "silent")
    try:
        answer = api_as(caller, method, path.format(running_instance.id))
    finally:
        node.options = before
        node.clear()
    assert (answer.status_code, "reason" in answer.json) == (503, False)
    assert answer.json["success"] is False


def test_ssh_session_requires_hypervisor(running_instance):
    """SSH-16. Every instance has a hypervisor from its creation, so the API cannot show this."""
    with session.no_autoflush:
        instance = session.get(Instance, running_instance.id)
        instance.hypervisor_id = None
        refused = consoles.shell_error(instance)
        session.rollback()
    assert (refused.status, refused.reason) == (409, "no_hypervisor")


def test_ssh_session_without_worker_times_out(api_as, running_instance, monkeypatch):
    """SSH-20. The queued task is cancelled, so that no key is added later."""
    monkeypatch.setattr(waiting.time, "sleep", lambda _: None)
    times = iter(range(0, 1000, 10))
    monkeypatch.setattr(waiting.time, "monotonic", lambda: next(times))
    answer = api_as("owner", "POST", f"/api/instance/{running_instance.id}/ssh-session")
    assert (answer.status_code, "reason" in answer.json) == (503, False)
    [row] = list_console_sessions()
    assert row.state == "expired"
    run_queued_calls()
    session.expire_all()
    assert list_console_sessions()[0].key_put_at is None


def test_session_key_is_removed_from_guest_after_session(api_as, running_instance, inline_workers, node, run_tasks):
    console_session = get_created_session(api_as("owner", "POST", f"/api/instance/{running_instance.id}/ssh-session"))
    row = session.get(ConsoleSession, console_session["session_id"])
    public_key, private_key = row.public_key, session.scalar(select(ConsoleSession.private_key))
    assert "OPENSSH PRIVATE KEY" in private_key
    assert public_key in node.list_authorized_keys(running_instance.id)
    row.redeemed_at = clock.now()
    consoles.record_ended(row.id, reason="left", message="The browser closed the console.")
    session.commit()
    run_tasks()
    assert public_key not in node.list_authorized_keys(running_instance.id)
    [row] = list_console_sessions()
    assert row.key_removed_at
    assert row.private_key is None


def test_session_key_of_unopened_session_is_removed(
    api_as, running_instance, inline_workers, node, run_tasks, monkeypatch
):
    get_created_session(api_as("owner", "POST", f"/api/instance/{running_instance.id}/ssh-session"))
    [row] = list_console_sessions()
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + timedelta(minutes=16))
    jobs.enqueue_call("worker.tasks.consoles.sweep_sessions")
    run_tasks()
    assert row.public_key not in node.list_authorized_keys(running_instance.id)
    assert list_console_sessions()[0].key_removed_at


def test_current_ssh_session_is_shown_and_closed(api_as, running_instance, inline_workers):
    path = f"/api/instance/{running_instance.id}/ssh-session"
    assert api_as("owner", "GET", path).json == {"active": False, "session": None}
    created_session = get_created_session(api_as("owner", "POST", path))
    answer = api_as("owner", "GET", path).json
    assert answer["active"] is True
    assert answer["session"]["session_id"] == created_session["session_id"]
    assert (answer["session"]["state"], answer["session"]["by"]) == ("fresh", "owner@example.com")
    assert created_session["token"] not in str(answer)
    status = f"/api/v1/instance/{running_instance.id}/ssh-session/status"
    assert api_as("admin", "GET", status).json["data"]["session"]["session_id"] == created_session["session_id"]
    assert api_as("owner", "DELETE", path).json["success"] is True
    assert api_as("owner", "GET", path).json["active"] is False
    get_created_session(api_as("owner", "POST", path))
    assert api_as("admin", "DELETE", f"/api/v1/instance/{running_instance.id}/ssh-session").status_code == 200
    assert api_as("admin", "GET", status).json["data"] == {"active": False, "session": None}
