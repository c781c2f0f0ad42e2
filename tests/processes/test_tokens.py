"""Tokens of a running installation with two web processes, Redis and the command line."""

import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from panel.services import tokens
from tests.support.waiting import wait_until

pytestmark = pytest.mark.processes


@pytest.fixture
def running_installation(installation):
    installation.env["PANEL_WEB_WORKERS"] = "2"
    installation.start_all()
    return installation


def request_statuses(installation, token, path="/api/connect", count=24):
    """Return the statuses of parallel requests, which reach every web process."""
    request_status = lambda _: installation.call("GET", path, token=token)[0]  # noqa: E731
    with ThreadPoolExecutor(8) as pool:
        return set(pool.map(request_status, range(count)))


def test_revoked_token_is_refused_by_every_process(running_installation, customer):
    """Processes must not keep tokens between requests."""
    answer = customer.call("POST", "/api/api-tokens", {"name": "x", "scopes": ["account:read"]})
    assert request_statuses(running_installation, answer["token"]) == {200}
    customer.call("DELETE", f"/api/api-token/{answer['api_token']['id']}")
    assert request_statuses(running_installation, answer["token"]) == {401}


def test_each_token_use_is_shown_and_stored(running_installation, customer):
    """IDT-35, IDT-36, OP-03: with every request, also a refused one, and for both kinds of tokens."""
    admin = running_installation.run_panel(
        "token", "admin", "--ip", "127.0.0.1", "--name", "x", "--description", ""
    ).strip()
    account_id = running_installation.call("GET", "/api/v1/users?search=customer@example.com", token=admin)[1]["data"][
        0
    ]["id"]
    impersonation = running_installation.call(
        "POST", f"/api/v1/user/{account_id}/impersonate", {"scopes": ["metrics:read"]}, admin
    )[1]["data"]
    answer = customer.call("POST", "/api/api-tokens", {"name": "x", "scopes": ["metrics:read"]})
    for token, token_id in (
        (answer["token"], answer["api_token"]["id"]),
        (impersonation["token"], impersonation["token_id"]),
    ):
        read_token = lambda: customer.call("GET", f"/api/api-token/{token_id}")["api_token"]  # noqa: B023, E731
        last_used_at = ""
        assert read_token()["last_used_at"] is None
        for path, status in (
            ("/api/connect", 200),
            ("/api/instances", 403),
            ("/api/nothing", 404),
            ("/api/connect", 200),
        ):
            time.sleep(tokens.LAST_USE_RESOLUTION.total_seconds())  # uses within this time count as one
            assert running_installation.call("GET", path, token=token)[0] == status
            if status != 404:  # the token is not checked for unknown paths
                assert read_token()["last_used_at"] > last_used_at
            last_used_at = read_token()["last_used_at"]
        assert read_token()["last_used_ip"] == "127.0.0.1"
        wait_until(lambda: read_last_used_at(running_installation, token_id), "a worker to store it")  # noqa: B023
        assert read_token()["last_used_at"] == last_used_at


def read_last_used_at(installation, token_id):
    with sqlite3.connect(installation.data_dir / "panel.db") as database:
        return database.execute("select last_used_at from tokens where id = ?", (token_id,)).fetchone()[0]


def test_token_command_prints_token_once(installation):
    """IDT-08, IDT-09, IDT-10"""
    installation.start("web")
    for kind, path in (("admin", "/api/v1/auth"), ("billing", "/api/v1/billing/auth")):
        options = ("--ip", "127.0.0.1", "--name", f"{kind} of the lab", "--description", "for this test")
        value = installation.run_panel("token", kind, *options).split()[-1]
        wait_until(installation.is_answering, "the web server")
        assert installation.call("GET", path, token=value)[0] == 200
        token_list = installation.run_panel("token", "list")
        assert value not in token_list
        line = next(line for line in token_list.splitlines() if f"  {kind}  " in line)
        assert "active  127.0.0.1  " in line
        assert line.endswith(f"{kind} of the lab: for this test")
        assert installation.run_panel("token", "revoke", line.split()[0]) == f"Token {kind} of the lab revoked.\n"
        assert installation.call("GET", path, token=value)[0] == 401
    assert installation.run_panel("token", "list") == ""


def test_token_is_bound_to_one_address(installation):
    name_options = ("--name", "x", "--description", "")
    for network in ("10.0.0.0/8", "203.0.113.7/32", "2001:db8::/64"):
        refused = installation.run_panel("token", "admin", "--ip", network, *name_options, status=2).replace("│", "")
        assert "A token is bound to one address, not to a network." in " ".join(refused.split())
    installation.run_panel("token", "admin", "--ip", "2001:db8::7", *name_options)
    assert "2001:db8::7" in installation.run_panel("token", "list")
    assert "No such token." in installation.run_panel("token", "revoke", "nothing", status=1)


def test_token_requires_name(installation):
    """IDT-10"""
    for kind in ("admin", "billing"):
        options = ("--ip", "127.0.0.1", "--name", " ", "--description", "")
        assert "Enter a name." in installation.run_panel("token", kind, *options, status=2)
    assert installation.run_panel("token", "list") == ""
