"""Rate limits of both APIs: per token, with sliding windows, configured by operators (decision NS-12)."""

import ipaddress
import threading

import pytest

from panel.auth import permissions
from panel.core import context
from panel.core.db import session
from panel.ratelimit import api_budget, windows
from panel.services import settings, tokens
from tests.support.cast import UNKNOWN_ID

BUDGETS = [
    ("requests", "owner", "/api/connect"),
    ("polls", "owner", "/api/tasks"),
    ("requests", "admin", "/api/v1/auth"),
    ("polls", "admin", "/api/v1/tasks"),
]


@pytest.fixture
def set_limits(rolled_back_app):
    """Return a function that sets rate limits: `set_limits(requests=3)`."""
    return lambda **limits: settings.update({f"rate_limit_{name}": value for name, value in limits.items()})


@pytest.mark.parametrize(("budget", "caller", "path"), BUDGETS)
def test_token_budget_is_limited_per_minute(api_as, set_limits, advance_time, budget, caller, path):
    """ENV-13"""
    set_limits(**{budget: 3})
    assert [api_as(caller, "GET", path).status_code for _ in range(4)] == [200, 200, 200, 429]
    refused = api_as(caller, "GET", path)
    assert refused.json["message"] == f"Only 3 {budget} a minute are allowed here."
    assert 1 <= int(refused.headers["Retry-After"]) <= 61
    advance_time(int(refused.headers["Retry-After"]))
    assert api_as(caller, "GET", path).status_code == 200


def test_rate_limit_window_slides(api_as, set_limits, advance_time):
    """A client cannot send twice the limit around the end of a minute."""
    set_limits(requests=10)
    advance_time(49)  # to the last second of the minute
    assert [api_as("owner", "GET", "/api/connect").status_code for _ in range(10)] == [200] * 10
    advance_time(2)
    assert [api_as("owner", "GET", "/api/connect").status_code for _ in range(3)] == [200, 429, 429]
    advance_time(29)
    assert [api_as("owner", "GET", "/api/connect").status_code for _ in range(6)] == [200] * 4 + [429] * 2


def test_every_answer_has_rate_limit_headers(api_as, set_limits):
    set_limits(requests=5)
    for remaining, status in ((4, 200), (3, 404), (2, 422)):
        path, method = {200: ("connect", "GET"), 404: (f"instance/{UNKNOWN_ID}", "GET"), 422: ("ssh-keys", "POST")}[
            status
        ]
        answer = api_as("owner", method, f"/api/{path}")
        assert answer.status_code == status
        assert (answer.headers["RateLimit-Limit"], answer.headers["RateLimit-Remaining"]) == ("5", str(remaining))
        reset = answer.headers["RateLimit-Reset"]
        assert 1 <= int(reset) <= 60
        assert answer.headers["RateLimit"] == f'"requests";r={remaining};t={reset}'
        assert answer.headers["RateLimit-Policy"] == '"requests";q=5;w=60'


def test_task_polls_have_separate_budget(api_as, set_limits):
    """A client that polls a task can still send other requests, and vice versa."""
    set_limits(requests=1, polls=2)
    assert [api_as("owner", "GET", "/api/tasks").status_code for _ in range(3)] == [200, 200, 429]
    assert [api_as("owner", "POST", f"/api/task/{UNKNOWN_ID}/cancel").status_code for _ in range(2)] == [404, 429]


def test_each_token_has_its_own_budget(api_as, cast, set_limits):
    set_limits(requests=1)
    assert [api_as("owner", "GET", "/api/connect").status_code for _ in range(2)] == [200, 429]
    assert api_as("member", "GET", "/api/connect").status_code == 200
    second = tokens.issue("user", name="second", account=cast.owner, scopes=permissions.USER_SCOPES)[1]
    session.commit()
    answer = api_as("nobody", "GET", "/api/connect", headers={"Authorization": f"Bearer {second}"})
    assert answer.status_code == 200


@pytest.mark.parametrize(("path", "refused"), [("/api/connect", 401), ("/api/v1/auth", 401)])
def test_requests_with_invalid_token_are_counted_by_address(api_as, set_limits, path, refused):
    """Also when each request has another token."""
    set_limits(requests=2)

    def send_request(number, address):
        headers = {"Authorization": f"Bearer {number:064}"}
        return api_as("nobody", "GET", path, headers=headers, environ_base={"REMOTE_ADDR": address}).status_code

    assert [send_request(number, "192.0.2.1") for number in range(3)] == [refused, refused, 429]
    assert send_request(4, "192.0.2.2") == refused
    assert api_as("owner", "GET", "/api/connect", environ_base={"REMOTE_ADDR": "192.0.2.1"}).status_code == 200


@pytest.mark.parametrize(
    ("address", "network"),
    [("192.0.2.1", "192.0.2.1"), ("2001:db8:1:2:3::4", "2001:db8:1:2::"), ("fe80::1%eth0", "fe80::")],
)
def test_addresses_are_counted_by_network(address, network):
    assert windows.get_rate_limit_network(ipaddress.ip_address(address)) == network


def test_changed_rate_limit_applies_immediately(api_as, set_limits):
    set_limits(requests=1)
    assert [api_as("owner", "GET", "/api/connect").status_code for _ in range(2)] == [200, 429]
    set_limits(requests=50)
    assert api_as("owner", "GET", "/api/connect").headers["RateLimit-Remaining"] == "49"


def test_every_budget_has_a_setting(rolled_back_app):
    for name in (*api_budget.API_BUDGETS, "sign_in"):
        assert getattr(settings.get(), f"rate_limit_{name}") >= 1


def test_pages_are_not_counted(browser_as, set_limits):
    set_limits(requests=1, polls=1)
    browser = browser_as("owner")
    assert [browser.get("/tasks").status_code for _ in range(3)] == [200] * 3
    assert "RateLimit-Limit" not in browser.get("/tasks").headers


def test_hits_are_counted_by_name_and_key(rolled_back_app):
    assert windows.count_use("a", "x", 2)[:2] == (True, 1)
    assert windows.count_use("a", "x", 2)[:2] == (True, 0)
    assert windows.count_use("a", "x", 2)[:2] == (False, 0)
    assert windows.count_use("a", "y", 2).allowed
    assert windows.count_use("b", "x", 2).allowed


def test_local_windows_expire_without_thread(rolled_back_app, advance_time, monkeypatch):
    monkeypatch.setattr(windows, "MAX_LOCAL_WINDOWS", 10)
    threads = threading.active_count()
    for number in range(10):
        windows.count_use("a", number, 2)
    advance_time(120)
    assert windows.count_use("a", "x", 2).allowed
    assert (len(context.current().rate_limits.local.windows), threading.active_count()) == (1, threads)
