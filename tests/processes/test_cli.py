"""The commands of the CLI, as an operator types them."""

import os
import re
import subprocess

import pytest

from tests.support.panel_processes import Installation
from tests.support.waiting import WAIT_TIMEOUT_SECONDS, wait_until

pytestmark = pytest.mark.processes


def test_cli_token_commands(installation):
    installation.start("web")
    name_options = ("--name", "me", "--description", "")
    local_token = installation.run_panel("token", "admin", "--ip", "127.0.0.1", *name_options).strip()
    remote_token = installation.run_panel("token", "admin", "--ip", "203.0.113.7", *name_options).strip()
    billing_token = installation.run_panel("token", "billing", "--ip", "127.0.0.1", *name_options).strip()
    scoped_token = installation.run_panel(
        "token", "user", "--email", "customer@example.com", "--scopes", "instances:read"
    ).strip()
    wait_until(installation.is_answering, "the web server")
    request_status = lambda token: installation.call("GET", "/api/v1/tasks", token=token)[0]  # noqa: E731
    assert [request_status(token) for token in (local_token, remote_token, billing_token, scoped_token)] == [
        200,
        403,
        403,
        403,
    ]
    assert installation.call("GET", "/api/instances", token=scoped_token)[0] == 200
    assert installation.call("GET", "/api/ssh-keys", token=scoped_token)[0] == 403


def test_cli_does_not_prompt_without_terminal(installation):
    """A script without a description continues, instead of waiting or ending with "Aborted!"."""
    assert installation.run_panel("token", "admin").startswith("pa_")
    assert installation.run_panel("token", "billing", "--name", "shop").strip()
    token_list = installation.run_panel("token", "list")
    assert re.search(r"admin +active +127\.0\.0\.1 +never used +command line\n", token_list)
    assert re.search(r"billing +active +127\.0\.0\.1 +never used +shop\n", token_list)
    for command in ("create", "password", "reset-factors"):
        assert "Missing option '--email'" in installation.run_panel("user", command, status=2)


def test_cli_prompts_at_terminal(installation):
    master_fd, terminal_fd = os.openpty()
    options = {"env": installation.env, "stdin": terminal_fd, "stdout": subprocess.PIPE, "stderr": terminal_fd}
    process = subprocess.Popen(installation.build_command(("token", "admin")), **options)
    os.write(master_fd, b"203.0.113.7\nmine\nfor tests\n")
    output = process.communicate(timeout=WAIT_TIMEOUT_SECONDS)[0].decode()
    os.close(master_fd)
    os.close(terminal_fd)
    assert (process.returncode, "IP address that can use it" in output) == (0, True)
    assert "203.0.113.7  never used  mine: for tests" in installation.run_panel("token", "list")


def test_cli_reports_invalid_arguments(installation):
    arguments_by_message = {
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
    for sentence, arguments in arguments_by_message.items():
        status = 2 if sentence == "not-an-address" else 1
        assert sentence in installation.run_panel(*arguments, status=status)
    installation.env["PANEL_BIDN"] = "x"
    assert "PANEL_BIDN is not a setting" in installation.run_panel("node", "list", status=1)


def test_cli_user_commands(installation):
    installation.run_panel(
        "user", "create", "--email", "new@example.com", "--password", "a long password", "--operator"
    )
    installation.run_panel("user", "password", "--email", "new@example.com", "--password", "another long password")
    assert installation.run_panel("token", "user", "--email", "NEW@example.com").startswith("pu_")
    options = ("--password", "a long password", "--operator", "support")
    assert "can sign in" in installation.run_panel("user", "create", "--email", "support@example.com", *options)
    assert "king" in installation.run_panel(
        "user", "create", "--email", "x@example.com", *options[:3], "king", status=2
    )
    token_options = ("--ip", "127.0.0.1", "--name", "n", "--description", "d")
    token = installation.run_panel("token", "admin", *token_options).strip()
    installation.start("web")
    wait_until(installation.is_answering, "the web process")
    rows = installation.call("GET", "/api/v1/users?kind=operator", token=token)[1]["data"]
    assert {row["email"]: row["operator_role"] for row in rows}.items() >= {
        ("new@example.com", "full"),
        ("support@example.com", "support"),
    }


def test_cli_hypervisor_commands(installation):
    output = installation.run_panel(
        "node", "add", "second", "--driver", "simulated", "--uri", "simulated://", "--group", "far"
    )
    assert output.startswith("second is up: simulated, 64 cores")
    node_lines = installation.run_panel("node", "list").splitlines()
    assert [re.split(r"\s+", line)[:3] for line in node_lines] == [
        ["second", "far", "up"],
        ["simulated", "local", "up"],
    ]
    installation.run_panel("node", "fault", "second", "ping", "refuse", "--count", "1")
    assert "fault refuse on ping" in installation.run_panel("node", "check", "second", status=1)
    assert installation.run_panel("node", "check", "second").startswith("second is up")
    assert installation.run_panel("node", "fault", "second", "*", "silent") == "*: silent (all calls)\n"
    assert installation.run_panel("node", "fault", "second", "clear") == ""


def test_setup_prints_no_warning_without_redis(tmp_path):
    """Before the first start no process can be notified."""
    installation = Installation(tmp_path)
    result = subprocess.run(
        installation.build_command(["setup", "--simulated"]), env=installation.env, capture_output=True, text=True
    )
    assert (result.returncode, "warning" in result.stderr) == (0, False), result.stderr


def test_repeated_setup_changes_nothing(installation):
    before = installation.run_panel("node", "list"), installation.run_panel("image", "list")
    assert installation.run_panel("setup", "--simulated") == ""
    assert (installation.run_panel("node", "list"), installation.run_panel("image", "list")) == before


def test_doctor_reports_missing_parts(installation):
    (installation.data_dir / "images" / "simulated.qcow2").unlink()
    installation.run_panel("db", "downgrade", "base")
    (installation.data_dir / "secret_key").chmod(0o644)
    output = installation.run_panel("doctor", status=1)
    for name in ("Files", "Secret key", "Database", "Redis", "Processes", "Web", "Images", "Hypervisors"):
        assert f"FAILED  {name}: " in output, name
    assert "panel db upgrade" in output
