"""A node on another host: a guest is deployed there, and its screen opened, over SSH and over TLS."""

import contextlib

import psutil
import pytest

from tests.guests.console_user import ConsoleUser, is_screen_live
from tests.processes.conftest import wait_until
from tests.support import remote_hosts
from tests.support.installation import CUSTOMER_EMAIL, CUSTOMER_PASSWORD, run_installation
from tests.support.local_hypervisor import LocalHypervisor

pytestmark = pytest.mark.guest


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with remote_hosts.run_remote_host(tmp_path_factory.mktemp("host")) as made:
        yield made


@pytest.fixture(scope="module")
def remote(host, tmp_path_factory, guest_cache):
    """An installation whose only node is that host, reached by SSH."""
    path = remote_hosts.create_ssh_client(host, tmp_path_factory.mktemp("client"))
    node = LocalHypervisor(host.ssh_uri, host.directory, host.network)
    with run_installation(tmp_path_factory.mktemp("remote"), node, guest_cache, PATH=path) as lab:
        yield lab


@pytest.fixture(scope="module")
def person(remote):
    return ConsoleUser(remote.at, CUSTOMER_EMAIL, CUSTOMER_PASSWORD)


@pytest.fixture(scope="module")
def guest(remote):
    instance = remote.create(display_name="Far away", hostname="far.example.com")
    remote.install(instance, ssh_keys=[remote.key_id])
    return remote.show(instance)


def tunnels(lab):
    """Processes that lead to screens."""
    found = []
    for process in lab.at.parts("console"):
        for child in process.children():
            with contextlib.suppress(psutil.NoSuchProcess):
                found += [child] if "-W" in child.cmdline() else []
    return found


def test_a_screen_over_ssh(remote, person, guest, host):
    """It listens at the host's loopback; the way there is a tunnel, which ends with the console."""
    assert guest["state"] == "running"
    viewer, title = person.screen(person.create_session(guest["id"]))
    assert title == f"QEMU ({guest['name']})"
    assert is_screen_live(viewer)
    assert len(tunnels(remote)) == 1
    viewer.close()
    wait_until(lambda: tunnels(remote) == [], "the tunnel to end")


def test_a_shell_s_key_is_put_into_a_guest_over_ssh(remote, guest):
    """SSH-01: once its agent answers."""
    path = f"/api/instance/{guest['id']}/ssh-session"
    wait_until(lambda: remote.at.call("POST", path, None, remote.token)[0] == 200, "the guest's agent")


def test_a_host_that_is_cut_off_is_said(remote, person, guest, host):
    remote_hosts.run_command("ip", "link", "set", host.name, "down")
    try:
        told = person.find_refusal(person.create_session(guest["id"]))
    finally:
        remote_hosts.run_command("ip", "link", "set", host.name, "up")
    assert "host" in told or "hypervisor" in told
    wait_until(lambda: person.find_refusal(person.create_session(guest["id"])) is None, "the screen to open again")


def test_a_screen_over_tls(remote, person, guest, host):
    """Screens at the host's loopback cannot be reached so, which is said; those at an address of the host can."""
    remote.admin("PATCH", f"/hypervisor/{remote.node}", {"uri": host.tls_uri})
    assert person.find_refusal(person.create_session(guest["id"])) == "The panel cannot reach the VNC server."
    remote_hosts.kill_daemon(host)
    remote_hosts.start_daemon(host, screens=host.address)
    wait_until(lambda: remote.admin("GET", f"/hypervisor/{remote.node}")["status"] == "up", "the node")
    for action in ("poweroff", "start"):
        remote.power(guest, action)
    viewer, title = person.screen(person.create_session(guest["id"]))
    assert title == f"QEMU ({guest['name']})"
    assert is_screen_live(viewer)
    assert tunnels(remote) == []
