"""The commands of day-to-day operation, as an operator types them."""

import os
import re
import subprocess

import pytest

from tests.processes.conftest import WAIT_TIMEOUT_SECONDS, Installation, wait_until

pytestmark = pytest.mark.processes


def test_cli_token_commands(installation):
    installation.start("web")
    mine = ("--name", "me", "--description", "")
    here = installation.run_panel("token", "admin", "--ip", "127.0.0.1", *mine).strip()
    elsewhere = installation.run_panel("token", "admin", "--ip", "203.0.113.7", *mine).strip()
    billing = installation.run_panel("token", "billing", "--ip", "127.0.0.1", *mine).strip()
    reader = installation.run_panel(
        "token", "user", "--email", "customer@example.com", "--scopes", "instances:read"
    ).strip()
    wait_until(installation.answers, "the web server")
    asked = lambda token: installation.call("GET", "/api/v1/tasks", token=token)[0]  # noqa: E731
    assert [asked(token) for token in (here, elsewhere, billing, reader)] == [200, 403, 403, 403]
    assert installation.call("GET", "/api/instances", token=reader)[0] == 200
    assert installation.call("GET", "/api/ssh-keys", token=reader)[0] == 403


def test_where_nobody_can_answer_nothing_is_asked(installation):
    """A script that gives no description goes on, instead of ending with "Aborted!" or waiting."""
    assert installation.run_panel("token", "admin").startswith("pa_")
    assert installation.run_panel("token", "billing", "--name", "shop").strip()
    listed = installation.run_panel("token", "list")
    assert re.search(r"admin +active +127\.0\.0\.1 +never used +command line\n", listed)
    assert re.search(r"billing +active +127\.0\.0\.1 +never used +shop\n", listed)
    for command in ("create", "password", "reset-factors"):
        assert "Missing option '--email'" in installation.run_panel("user", command, status=2)


def test_at_a_terminal_it_asks(installation):
    ours, theirs = os.openpty()
    here = {"env": installation.env, "stdin": theirs, "stdout": subprocess.PIPE, "stderr": theirs}
    asking = subprocess.Popen(installation.command(("token", "admin")), **here)
    os.write(ours, b"203.0.113.7\nmine\nfor tests\n")
    told = asking.communicate(timeout=WAIT_TIMEOUT_SECONDS)[0].decode()
    os.close(ours)
    os.close(theirs)
    assert (asking.returncode, "IP address that can use it" in told) == (0, True)
    assert "203.0.113.7  never used  mine: for tests" in installation.run_panel("token", "list")


def test_what_cannot_be_is_said_in_a_sentence(installation):
    refused = {
        "not-an-address": ("token", "admin", "--ip", "not-an-address", "--name", "x", "--description", ""),
        "Unknown scope: x": ("token", "user", "--email", "customer@example.com", "--scopes", "x"),
        "No account has the email address": ("token", "user", "--email", "nobody@example.com"),
        "An account with this email": (
            "user",
            "create",
            "--email",
            "customer@example.com",
            "--password",
            "a long password",
        ),
        "Hypervisor x not found": ("node", "check", "x"),
        "no operation of a node": ("node", "fault", "simulated", "dance", "slow"),
        "Choose a fault:": ("node", "fault", "simulated", "start"),
        "no local hypervisor": ("node", "stop"),
    }
    for sentence, words in refused.items():
        status = 2 if sentence == "not-an-address" else 1
        assert sentence in installation.run_panel(*words, status=status)
    installation.env["PANEL_BIDN"] = "x"
    assert "PANEL_BIDN is not a setting" in installation.run_panel("node", "list", status=1)


def test_cli_user_commands(installation):
    installation.run_panel(
        "user", "create", "--email", "new@example.com", "--password", "a long password", "--operator"
    )
    installation.run_panel("user", "password", "--email", "new@example.com", "--password", "another long password")
    assert installation.run_panel("token", "user", "--email", "NEW@example.com").startswith("pu_")
    words = ("--password", "a long password", "--operator", "support")
    assert "can sign in" in installation.run_panel("user", "create", "--email", "support@example.com", *words)
    assert "king" in installation.run_panel("user", "create", "--email", "x@example.com", *words[:3], "king", status=2)
    address = ("--ip", "127.0.0.1", "--name", "n", "--description", "d")
    token = installation.run_panel("token", "admin", *address).strip()
    installation.start("web")
    wait_until(installation.answers, "the web process")
    rows = installation.call("GET", "/api/v1/users?kind=operator", token=token)[1]["data"]
    assert {row["email"]: row["operator_role"] for row in rows}.items() >= {
        ("new@example.com", "full"),
        ("support@example.com", "support"),
    }


def test_cli_hypervisor_commands(installation):
    added = installation.run_panel(
        "node", "add", "second", "--driver", "simulated", "--uri", "simulated://", "--group", "far"
    )
    assert added.startswith("second is up: simulated, 64 cores")
    listed = installation.run_panel("node", "list").splitlines()
    assert [re.split(r"\s+", line)[:3] for line in listed] == [["second", "far", "up"], ["simulated", "local", "up"]]
    installation.run_panel("node", "fault", "second", "ping", "refuse", "--count", "1")
    assert "fault refuse on ping" in installation.run_panel("node", "check", "second", status=1)
    assert installation.run_panel("node", "check", "second").startswith("second is up")
    assert installation.run_panel("node", "fault", "second", "*", "silent") == "*: silent (all calls)\n"
    assert installation.run_panel("node", "fault", "second", "clear") == ""


def test_setup_alone_warns_of_nothing(tmp_path):
    """Where nothing runs yet nobody can be notified."""
    new = Installation(tmp_path)
    done = subprocess.run(new.command(["setup", "--simulated"]), env=new.env, capture_output=True, text=True)
    assert (done.returncode, "warning" in done.stderr) == (0, False), done.stderr


def test_setup_leaves_alone_what_is_there(installation):
    before = installation.run_panel("node", "list"), installation.run_panel("image", "list")
    assert installation.run_panel("setup", "--simulated") == ""
    assert (installation.run_panel("node", "list"), installation.run_panel("image", "list")) == before


def test_the_doctor_finds_what_is_missing(installation):
    (installation.data_dir / "images" / "simulated.qcow2").unlink()
    installation.run_panel("db", "downgrade", "base")
    (installation.data_dir / "secret_key").chmod(0o644)
    found = installation.run_panel("doctor", status=1)
    for name in ("Files", "Secret key", "Database", "Redis", "Processes", "Web", "Images", "Hypervisors"):
        assert f"FAILED  {name}: " in found, name
    assert "panel db upgrade" in found
