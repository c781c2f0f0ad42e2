"""Time-outs, pause, connect, resume and end of sandboxes."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Microvm
from panel.workflows import microvm_settling


@pytest.fixture
def sandbox(create_sandbox):
    """The path of a running sandbox with a time-out of 300 seconds."""
    return f"/sandboxes/{create_sandbox()['sandboxID']}"


@pytest.fixture
def paused_sandbox(call, sandbox, run_tasks):
    assert call("POST", f"{sandbox}/pause").status_code == 204
    run_tasks()
    assert call("GET", sandbox).json["state"] == "paused"
    return sandbox


def get_row():
    return session.scalars(select(Microvm)).one()


def get_remaining_seconds():
    """Return the seconds until the end, rounded to tens."""
    return round((get_row().expires_at - clock.now()) / timedelta(seconds=10)) * 10


def test_kill_ends_a_sandbox_once(call, sandbox, run_tasks):
    """SBX-03"""
    assert call("DELETE", sandbox).status_code == 204
    assert call("DELETE", sandbox).status_code == 404
    run_tasks()
    assert get_row().ended_at
    assert call("GET", sandbox).status_code == 404
    assert call("GET", "/v2/sandboxes").json == []


@pytest.mark.parametrize("state", ["starting", "paused", "pausing", "stopped", "failed"])
def test_kill_ends_a_sandbox_in_any_state(call, sandbox, state):
    get_row().state = state
    session.commit()
    assert call("DELETE", sandbox).status_code == 204


def test_timeout_moves_the_end_both_ways(call, sandbox):
    for seconds in (600, 60):
        assert call("POST", f"{sandbox}/timeout", {"timeout": seconds}).status_code == 204
        assert get_remaining_seconds() == seconds


@pytest.mark.parametrize("route", ["timeout", "refreshes", "connect"])
def test_end_counts_from_readiness_unless_its_user_set_it_meanwhile(call, create_sandbox, run_tasks, route):
    sandbox = f"/sandboxes/{create_sandbox(is_running=False, timeout=300)['sandboxID']}"
    call("POST", f"{sandbox}/{route}", {"duration" if route == "refreshes" else "timeout": 300})
    get_row().expires_at -= timedelta(seconds=200)
    session.commit()
    run_tasks()
    assert call("GET", sandbox).json["state"] == "running"
    assert get_remaining_seconds() == (100 if route == "timeout" else 300)


@pytest.mark.parametrize("seconds", [0, -5])
def test_timeout_of_zero_ends_the_sandbox(call, sandbox, seconds):
    assert call("POST", f"{sandbox}/timeout", {"timeout": seconds}).status_code == 204
    assert call("GET", sandbox).status_code == 404


@pytest.mark.parametrize("body", [{}, {"timeout": None}, {"timeout": "60"}, {"timeout": 10**8}])
def test_invalid_timeout_is_refused(call, sandbox, body):
    assert call("POST", f"{sandbox}/timeout", body).status_code == 400


@pytest.mark.parametrize("seconds", [10**8, 1e30, -1e30])
@pytest.mark.parametrize(
    ("route", "field", "minimum"), [("timeout", "timeout", 0), ("connect", "timeout", 1), ("refreshes", "duration", 1)]
)
def test_timeout_out_of_range_names_the_range(call, sandbox, route, field, minimum, seconds):
    answer = call("POST", f"{sandbox}/{route}", {field: seconds})
    sentence = f"Invalid body: {field}: Must be {minimum} to 2592000 seconds, which are 30 days."
    assert (answer.status_code, answer.json["message"]) == (400, sentence)
    assert get_remaining_seconds() == 300


@pytest.mark.parametrize("generation", ["", "/v2"])
def test_connect_extends_a_running_sandbox(call, sandbox, generation):
    token = call("GET", sandbox).json["envdAccessToken"]
    for sent, expected in ((600, 600), (60, 600)):
        answer = call("POST", f"{generation}{sandbox}/connect", {"timeout": sent})
        assert (answer.status_code, answer.json["envdAccessToken"]) == (200, token)
        assert get_remaining_seconds() == expected
    assert call("POST", f"{generation}{sandbox}/connect").status_code == 200


def test_refresh_only_extends(call, sandbox):
    for sent, expected in (({"duration": 900}, 900), ({"duration": 5}, 900), (None, 900)):
        assert call("POST", f"{sandbox}/refreshes", sent).status_code == 204
        assert get_remaining_seconds() == expected


@pytest.mark.parametrize("body", [None, {}, {"memory": True}])
def test_pause_takes_any_body_and_is_refused_twice(call, sandbox, run_tasks, body):
    assert call("POST", f"{sandbox}/pause", body).status_code == 204
    assert call("POST", f"{sandbox}/pause", body).status_code == 409
    run_tasks()
    answer = call("POST", f"{sandbox}/pause", body)
    assert (answer.status_code, answer.json["code"]) == (409, 409)


def test_connect_resumes_a_paused_sandbox(call, paused_sandbox, run_tasks):
    answer = call("POST", f"/v2{paused_sandbox}/connect", {"timeout": 99})
    assert (answer.status_code, answer.json["domain"]) == (201, "not-configured.invalid")
    assert call("GET", paused_sandbox).json["state"] == "running"
    run_tasks()
    assert get_row().state == "running"
    assert get_remaining_seconds() == 100


def test_resume_of_the_first_sdks(call, paused_sandbox, run_tasks):
    assert call("POST", f"{paused_sandbox}/resume", {"timeout": 120, "autoPause": True}).status_code == 201
    run_tasks()
    assert (get_row().state, get_row().on_timeout, get_remaining_seconds()) == ("running", "pause", 120)
    assert call("POST", f"{paused_sandbox}/resume", {"timeout": 120}).status_code == 409


def test_action_during_a_task_waits_for_it(call, sandbox, monkeypatch):
    """SDKs pause and connect right after other calls, whose tasks may not have ended."""
    waits = []

    def finish_task(microvm, *_):
        waits.append(microvm.state)
        microvm.state = {"starting": "running", "pausing": "paused"}[microvm.state]

    monkeypatch.setattr(microvm_settling.waiting, "wait_for", finish_task)
    session.connection().exec_driver_sql("update tasks set status = 'completed'")
    get_row().state = "starting"
    session.commit()
    assert call("POST", f"{sandbox}/pause").status_code == 204
    session.connection().exec_driver_sql("update tasks set status = 'completed'")
    session.commit()
    assert call("POST", f"{sandbox}/connect", {"timeout": 60}).status_code == 201
    assert waits == ["starting", "pausing"]


def test_action_that_waits_too_long_can_be_repeated(call, sandbox, monkeypatch):
    monkeypatch.setattr(microvm_settling, "SETTLE_TIMEOUT_SECONDS", 0)
    get_row().state = "pausing"
    session.commit()
    answer = call("POST", f"{sandbox}/connect", {"timeout": 60})
    assert (answer.status_code, answer.json["error_code"]) == (503, "microvm_busy")
