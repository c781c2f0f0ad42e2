"""A node on another host: deploy, screen and shell over SSH and over TLS."""

import contextlib

import psutil
import pytest

from tests.guests.console_user import ConsoleUser, is_screen_live
from tests.support import remote_hosts
from tests.support.installation import CUSTOMER_EMAIL, CUSTOMER_PASSWORD, run_installation
from tests.support.local_hypervisor import LocalHypervisor
from tests.support.waiting import wait_until

pytestmark = pytest.mark.guest


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with remote_hosts.run_remote_host(tmp_path_factory.mktemp("host")) as remote_host:
        yield remote_host


@pytest.fixture(scope="module")
def remote_lab(host, tmp_path_factory, installation_template):
    """An installation whose only node is that host, reached by SSH."""
    path = remote_hosts.create_ssh_client(host, tmp_path_factory.mktemp("client"))
    node = LocalHypervisor(host.ssh_uri, host.directory, host.network)
    with run_installation(tmp_path_factory.mktemp("remote"), node, installation_template, PATH=path) as lab:
        yield lab


@pytest.fixture(scope="module")
def customer(remote_lab):
    return ConsoleUser(remote_lab.installation, CUSTOMER_EMAIL, CUSTOMER_PASSWORD)


@pytest.fixture(scope="module")
def guest(remote_lab):
    instance = remote_lab.create(display_name="Far away", hostname="far.example.com")
    remote_lab.install(instance, ssh_keys=[remote_lab.key_id])
    return remote_lab.get_instance(instance)


def find_tunnels(lab):
    """Return the SSH processes that lead to screens."""
    tunnels = []
    for process in lab.installation.list_children("console"):
        for child in process.children():
            with contextlib.suppress(psutil.NoSuchProcess):
                tunnels += [child] if "-W" in child.cmdline() else []
    return tunnels


def test_screen_over_ssh_uses_tunnel(remote_lab, customer, guest, host):
    """The screen listens at the host's loopback address. Its tunnel ends with the console."""
    assert guest["state"] == "running"
    viewer, title = customer.open_screen(customer.create_session(guest["id"]))
    assert title == f"QEMU ({guest['name']})"
    assert is_screen_live(viewer)
    assert len(find_tunnels(remote_lab)) == 1
    viewer.close()
    wait_until(lambda: find_tunnels(remote_lab) == [], "the tunnel to end")


def test_shell_key_is_added_to_remote_guest(remote_lab, guest):
    """SSH-01: once its agent answers."""
    path = f"/api/instance/{guest['id']}/ssh-session"
    wait_until(
        lambda: remote_lab.installation.call("POST", path, None, remote_lab.token)[0] == 200, "the guest's agent"
    )


def test_screen_of_unreachable_host_is_refused(remote_lab, customer, guest, host):
    remote_hosts.run_command("ip", "link", "set", host.name, "down")
    try:
        reason = customer.find_refusal(customer.create_session(guest["id"]))
    finally:
        remote_hosts.run_command("ip", "link", "set", host.name, "up")
    assert "host" in reason or "hypervisor" in reason
    wait_until(lambda: customer.find_refusal(customer.create_session(guest["id"])) is None, "the screen to open again")


def test_screen_over_tls_needs_reachable_address(remote_lab, customer, guest, host):
    """Screens at the host's loopback address are refused with the reason; those at another address open."""
    remote_lab.call_admin("PATCH", f"/hypervisor/{remote_lab.node}", {"uri": host.tls_uri})
    assert customer.find_refusal(customer.create_session(guest["id"])) == "The panel cannot reach the VNC server."
    remote_hosts.kill_daemon(host)
    remote_hosts.start_daemon(host, vnc_address=host.address)
    wait_until(lambda: remote_lab.call_admin("GET", f"/hypervisor/{remote_lab.node}")["status"] == "up", "the node")
    for action in ("poweroff", "start"):
        remote_lab.run_power_action(guest, action)
    viewer, title = customer.open_screen(customer.create_session(guest["id"]))
    assert title == f"QEMU ({guest['name']})"
    assert is_screen_live(viewer)
    assert find_tunnels(remote_lab) == []
