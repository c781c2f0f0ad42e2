"""Tokens of a running installation: two web processes, a Redis, the command line."""

import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from panel.services import tokens
from tests.processes.conftest import wait_until

pytestmark = pytest.mark.processes


@pytest.fixture
def running(installation):
    installation.env["PANEL_WEB_WORKERS"] = "2"
    installation.up()
    return installation


def request_statuses(installation, token, path="/api/connect", count=24):
    """The statuses of many requests at once, which reach every web process."""
    ask = lambda _: installation.call("GET", path, token=token)[0]  # noqa: E731
    with ThreadPoolExecutor(8) as pool:
        return set(pool.map(ask, range(count)))


def test_a_revoked_token_is_dead_in_every_process(running, customer):
    """Nothing is remembered between requests."""
    made = customer.call("POST", "/api/api-tokens", {"name": "x", "scopes": ["account:read"]})
    assert request_statuses(running, made["token"]) == {200}
    customer.call("DELETE", f"/api/api-token/{made['api_token']['id']}")
    assert request_statuses(running, made["token"]) == {401}


def test_each_use_is_seen_and_written_down(running, customer):
    """IDT-35, IDT-36, OP-03: with every request, a refused one too, and of both kinds."""
    admin = running.run_panel("token", "admin", "--ip", "127.0.0.1", "--name", "x", "--description", "").strip()
    person = running.call("GET", "/api/v1/users?search=customer@example.com", token=admin)[1]["data"][0]["id"]
    impersonation = running.call("POST", f"/api/v1/user/{person}/impersonate", {"scopes": ["metrics:read"]}, admin)[1][
        "data"
    ]
    made = customer.call("POST", "/api/api-tokens", {"name": "x", "scopes": ["metrics:read"]})
    for token, row in ((made["token"], made["api_token"]["id"]), (impersonation["token"], impersonation["token_id"])):
        shown = lambda: customer.call("GET", f"/api/api-token/{row}")["api_token"]  # noqa: B023, E731
        last = ""
        assert shown()["last_used_at"] is None
        for path, status in (
            ("/api/connect", 200),
            ("/api/instances", 403),
            ("/api/nothing", 404),
            ("/api/connect", 200),
        ):
            time.sleep(tokens.LAST_USE_RESOLUTION.total_seconds())  # uses that are closer together count as one
            assert running.call("GET", path, token=token)[0] == status
            if status != 404:  # nobody was asked who it is
                assert shown()["last_used_at"] > last
            last = shown()["last_used_at"]
        assert shown()["last_used_ip"] == "127.0.0.1"
        wait_until(lambda: stored_token(running, row), "a worker to write it down")  # noqa: B023
        assert shown()["last_used_at"] == last


def stored_token(installation, token_id):
    with sqlite3.connect(installation.data_dir / "panel.db") as database:
        return database.execute("select last_used_at from tokens where id = ?", (token_id,)).fetchone()[0]


def test_the_command_prints_the_token_once(installation):
    """IDT-08, IDT-09, IDT-10"""
    installation.start("web")
    for kind, path in (("admin", "/api/v1/auth"), ("billing", "/api/v1/billing/auth")):
        told = ("--ip", "127.0.0.1", "--name", f"{kind} of the lab", "--description", "for this test")
        value = installation.run_panel("token", kind, *told).split()[-1]
        wait_until(installation.answers, "the web server")
        assert installation.call("GET", path, token=value)[0] == 200
        listed = installation.run_panel("token", "list")
        assert value not in listed
        line = next(line for line in listed.splitlines() if f"  {kind}  " in line)
        assert "active  127.0.0.1  " in line
        assert line.endswith(f"{kind} of the lab: for this test")
        assert installation.run_panel("token", "revoke", line.split()[0]) == f"Token {kind} of the lab revoked.\n"
        assert installation.call("GET", path, token=value)[0] == 401
    assert installation.run_panel("token", "list") == ""


def test_a_token_is_bound_to_one_address(installation):
    mine = ("--name", "x", "--description", "")
    for network in ("10.0.0.0/8", "203.0.113.7/32", "2001:db8::/64"):
        refused = installation.run_panel("token", "admin", "--ip", network, *mine, status=2).replace("│", "")
        assert "A token is bound to one address, not to a network." in " ".join(refused.split())
    installation.run_panel("token", "admin", "--ip", "2001:db8::7", *mine)
    assert "2001:db8::7" in installation.run_panel("token", "list")
    assert "No such token." in installation.run_panel("token", "revoke", "nothing", status=1)


def test_a_token_has_a_name(installation):
    """IDT-10"""
    for kind in ("admin", "billing"):
        mine = ("--ip", "127.0.0.1", "--name", " ", "--description", "")
        assert "Enter a name." in installation.run_panel("token", kind, *mine, status=2)
    assert installation.run_panel("token", "list") == ""
