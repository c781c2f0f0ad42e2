"""The router of sandboxes as a process of `panel up`."""

import signal
import subprocess

import pytest

from tests.support.ports import find_free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.processes


@pytest.fixture
def installation_settings():
    return {"PANEL_WORKERS": "1", "PANEL_SANDBOX_BIND": f"127.0.0.1:{find_free_port()}"}


def find_router(installation):
    routers = installation.list_children("sandbox")
    return routers[0] if routers else None


def test_router_is_a_process_of_up(installation):
    up = installation.start_all()
    wait_until(lambda: "sandbox_router_started" in installation.read_log(), "the router")
    command = installation.build_command(["doctor"])
    doctor = subprocess.run(command, env=installation.env, capture_output=True, text=True)
    assert "ok  Sandboxes: the router answers" in doctor.stdout
    installation.url = f"http://{installation.env['PANEL_SANDBOX_BIND']}"
    assert installation.call("GET", "/") == (400, {"message": "The request names no sandbox", "code": 400})

    router = find_router(installation)
    router.kill()
    wait_until(lambda: (again := find_router(installation)) and again.pid != router.pid, "the restart")
    wait_until(lambda: installation.read_log().count("sandbox_router_started") == 2, "the router")
    up.send_signal(signal.SIGTERM)
    assert up.wait(60) == 0
    assert "sandbox_router_draining" in installation.read_log()


def test_second_router_is_reported(installation):
    """Two routers would take the channels of sandboxes from each other."""
    installation.start_all()
    wait_until(lambda: "sandbox_router_started" in installation.read_log(), "the router")
    installation.env["PANEL_SANDBOX_BIND"] = f"127.0.0.1:{find_free_port()}"
    second = installation.start("sandbox")
    for log in ("up", "sandbox"):
        wait_until(lambda log=log: "sandbox_router_not_alone" in installation.read_log(log), "the notice")
    command = installation.build_command(["doctor"])
    doctor = subprocess.run(command, env=installation.env, capture_output=True, text=True)
    assert doctor.returncode == 1
    assert "2 routers take sandboxes from each other" in doctor.stdout + doctor.stderr
    second.terminate()
    assert second.wait(60) == 0
    doctor = subprocess.run(command, env=installation.env, capture_output=True, text=True)
    assert "routers take" not in doctor.stdout + doctor.stderr


def test_router_needs_its_address(installation):
    bind = installation.env.pop("PANEL_SANDBOX_BIND")
    assert "Set PANEL_SANDBOX_BIND" in installation.run_panel("sandbox", status=1)
    installation.env["PANEL_SANDBOX_BIND"] = bind.replace("127.0.0.1", "192.0.2.1")
    assert "cannot be used" in installation.run_panel("sandbox", status=1)
