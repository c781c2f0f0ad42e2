"""The unmodified command line of E2B against a running panel and its router."""

import json
import subprocess

import pytest

from tests.support import sandbox_clients
from tests.support.waiting import wait_until

pytestmark = pytest.mark.processes

WITH_ERRORS = {"capture_output": False, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}


@pytest.fixture
def e2b(platform, tmp_path):
    """Return a function that runs a command of `e2b`."""
    program = sandbox_clients.find_node_modules() / ".bin" / "e2b"
    platform_home = tmp_path / "home"
    platform_home.mkdir()

    def run(*arguments, **options):
        return platform.run("env", f"HOME={platform_home}", program, *arguments, **options)

    return run


def test_command_line(e2b):
    """SBX-03"""

    def list_ids(*options):
        rows = json.loads(e2b("sandbox", "list", "--format", "json", *options) or "[]")
        return [row["sandboxId"] for row in rows]

    first, second = (e2b("sandbox", "create", *name, "-d").strip() for name in ((), ("base",)))
    assert set(list_ids()) == {first, second}
    assert "State: running" in e2b("sandbox", "info", first)
    assert e2b("sandbox", "exec", first, "--", "sh", "-c", "echo out; exit 4", status=4) == "out\n"
    assert e2b("sandbox", "exec", first, "cat", input="piped", stdin=None) == "piped"
    wait_until(lambda: "Identity applied" in e2b("sandbox", "logs", first), "the log")
    wait_until(lambda: "CPU" in e2b("sandbox", "metrics", first), "metrics")
    e2b("sandbox", "pause", first)
    assert (list_ids(), list_ids("--state", "paused")) == ([second], [first])
    e2b("sandbox", "resume", first)
    assert "has been killed" in e2b("sandbox", "kill", first)
    assert "wasn't found" in e2b("sandbox", "kill", first, **WITH_ERRORS)
    assert "Killed 1 running sandboxes" in e2b("sandbox", "kill", "-a")
    assert "No sandboxes found" in e2b("sandbox", "list")
    assert "base" in e2b("template", "list")


def test_command_line_in_domain_form(e2b):
    """SBX-10"""
    sandbox = e2b("sandbox", "create", "-d", form="domain").strip()
    assert e2b("sandbox", "exec", sandbox, "--", "echo", "out", form="domain") == "out\n"
    e2b("sandbox", "kill", sandbox, form="domain")


def test_command_line_with_a_wrong_key(e2b, platform, monkeypatch):
    """SBX-02"""
    monkeypatch.setattr(platform, "key", "e2b_" + "0" * 40)
    result = e2b("sandbox", "list", status=1, **WITH_ERRORS)
    assert "Invalid API key" in result
