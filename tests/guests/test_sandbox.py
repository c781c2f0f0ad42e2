"""The unmodified Python SDK of E2B in a real micro VM, through a running panel and its router."""

import contextlib
import time

import libvirt
import pytest
from e2b import PtySize, Sandbox, SandboxException, SandboxNotFoundException, TimeoutException
from httpx import HTTPError

from tests.support.ports import find_free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.guest


@pytest.fixture(scope="module")
def options(lab):
    """The options of the SDK: a panel with the image `sandbox`, a node that takes micro VMs, a router and a key."""
    lab.installation.run_panel("image", "build", "sandbox")
    lab.call_admin("POST", "/microvm/profiles", {"hypervisor_id": lab.node})
    bind = f"127.0.0.1:{find_free_port()}"
    lab.installation.env["PANEL_SANDBOX_BIND"] = bind
    start_router(lab)
    key = lab.call("POST", "/api/microvm/api-keys", {"name": "sdk"})["key"]
    return {
        "api_url": f"{lab.installation.url}/api/sbx",
        "api_key": key,
        "sandbox_url": f"http://{bind}",
        "request_timeout": 200,
    }


def start_router(lab):
    """Start the router, or start it again after it was killed."""
    count = 1
    if router := find_router(lab):
        router.kill()
        router.wait()
        count = lab.installation.read_log("sandbox").count("sandbox_router_started") + 1
    lab.installation.start("sandbox")
    wait_until(lambda: lab.installation.read_log("sandbox").count("sandbox_router_started") == count, "the router")


def find_router(lab):
    routers = [
        process for process in lab.installation.running if process.is_running() and "sandbox" in process.cmdline()
    ]
    return routers[-1] if routers else None


def test_sdk_uses_a_sandbox(lab, hypervisor, options):
    """SBX-03, SBX-08"""
    sandbox = Sandbox.create(timeout=900, envs={"MODE": "test"}, **options)
    try:
        use_sandbox(sandbox)
        start_router(lab)
        command = sandbox.commands.run("cat note.txt; sleep 1000", background=True)
        assert next(iter(command)) == ("a note\n", None, None)
        sandbox.pause()
        with pytest.raises((SandboxException, HTTPError)):
            command.wait()
        assert sandbox.is_running() is False
        with pytest.raises(TimeoutException):
            sandbox.commands.run("true")
        connected = Sandbox.connect(sandbox.sandbox_id, timeout=900, **options)
        assert connected.commands.run("cat note.txt; echo $MODE").stdout == "a note\ntest\n"
        assert abs(int(connected.commands.run("date +%s").stdout) - time.time()) < 60
    finally:
        sandbox.kill()
    assert sandbox.is_running() is False
    with pytest.raises(TimeoutException):
        sandbox.commands.run("true")
    with pytest.raises(SandboxNotFoundException):
        sandbox.get_info()
    log = lab.installation.read_log("sandbox")
    assert "Traceback" not in log, log
    wait_until(lambda: not list_machine_files(hypervisor, sandbox), "the removal")


def list_machine_files(hypervisor, sandbox):
    with contextlib.closing(libvirt.open(hypervisor.uri)) as connection:
        names = [domain.name() for domain in connection.listAllDomains()]
    names += [path.name for path in (hypervisor.directory / "disks").iterdir()]
    return [name for name in names if sandbox.sandbox_id in name]


def use_sandbox(sandbox):
    assert sandbox.commands.run("echo hi; echo $MODE").stdout == "hi\ntest\n"
    assert sandbox.is_running() is True
    sandbox.files.write("note.txt", "a note\n")
    assert sandbox.files.read("note.txt") == "a note\n"
    terminal = sandbox.pty.create(PtySize(rows=30, cols=90))
    sandbox.pty.send_stdin(terminal.pid, b"stty size; exit\n")
    output = []
    terminal.wait(on_pty=output.append)
    assert b"30 90\r\n" in b"".join(output)
