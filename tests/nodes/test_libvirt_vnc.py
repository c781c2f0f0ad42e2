"""VNC of real machines, and how the panel reaches it on remote nodes."""

import uuid
from contextlib import closing

import libvirt
import pytest

from tests.nodes import vnc_client
from worker.nodes.base import Disk, Machine, NodeSpec, Refused
from worker.nodes.libvirt import LibvirtNode
from worker.nodes.libvirt.vnc import find_route

MiB = 1024**2


@pytest.mark.parametrize(
    ("uri", "listens", "host"),
    [
        ("qemu:///system", "127.0.0.1", "127.0.0.1"),
        ("qemu+unix:///system?socket=/run/libvirt-sock", "0.0.0.0", "127.0.0.1"),
        ("qemu+unix:///system", "::", "::1"),
        ("qemu+tls://node.example/system", "0.0.0.0", "node.example"),
        ("qemu+tls://node.example/system", "10.0.0.7", "10.0.0.7"),
        ("qemu+tcp://[2001:db8::7]/system", "::", "2001:db8::7"),
    ],
)
def test_vnc_route_is_seen_from_the_panel(uri, listens, host):
    assert find_route(listens, uri) == (host, None)


@pytest.mark.parametrize(
    ("uri", "listens", "host", "via"),
    [
        ("qemu+ssh://node.example/system", "127.0.0.1", "127.0.0.1", "ssh://node.example"),
        ("qemu+ssh://panel@node.example:2222/system?no_tty=1", "::", "::1", "ssh://panel@node.example:2222"),
        ("qemu+libssh2://panel@[2001:db8::7]/system", "10.0.0.7", "10.0.0.7", "ssh://panel@[2001:db8::7]"),
        (
            "qemu+ssh://node.example/system?keyfile=/etc/panel/a%20key&x=1",
            "0.0.0.0",
            "127.0.0.1",
            "ssh://node.example?keyfile=/etc/panel/a%20key",
        ),
    ],
)
def test_vnc_route_of_ssh_node_uses_ssh(uri, listens, host, via):
    assert find_route(listens, uri) == (host, via)


@pytest.mark.parametrize("listens", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("transport", ["tls", "tcp"])
def test_vnc_on_remote_loopback_is_refused(listens, transport):
    with pytest.raises(Refused) as refused:
        find_route(listens, f"qemu+{transport}://node.example/system")
    assert "node.example" not in str(refused.value)
    assert "vnc_listen" in refused.value.detail


@pytest.fixture
def node(hypervisor, tmp_path):
    node = LibvirtNode(NodeSpec("node", "node", "libvirt", hypervisor.uri), tmp_path)
    node.prepare_pool("screens", str(hypervisor.directory / "screens"))
    yield node
    node.close()


@pytest.fixture
def machine(node):
    """A machine that runs, without a guest in it."""
    disk = Disk("screens", "seen", 64 * MiB)
    node.create_disk(disk)
    machine = Machine(str(uuid.uuid4()), "seen", 1, 64, (disk,), vnc_password="sesame")
    node.define(machine)
    node.start(machine.id)
    yield machine
    node.delete(machine.id)
    node.delete_disk(disk.pool, disk.name)


@pytest.mark.guest
def test_open_vnc_session_survives_password_change(node, machine):
    endpoint = node.console(machine.id, "first")
    with vnc_client.connect_signed_in(endpoint, "first") as connection:
        assert vnc_client.is_receiving_picture(connection)
        again = node.console(machine.id, "second")
        assert (again.host, again.port) == (endpoint.host, endpoint.port)
        assert not vnc_client.is_admitted(endpoint, "first")
        assert vnc_client.is_admitted(endpoint, "second")
        assert vnc_client.is_receiving_picture(connection)


@pytest.mark.guest
def test_vnc_password_of_definition_is_unchanged(node, machine, hypervisor):
    node.console(machine.id, "first")
    flags = libvirt.VIR_DOMAIN_XML_SECURE | libvirt.VIR_DOMAIN_XML_INACTIVE
    with closing(libvirt.open(hypervisor.uri)) as connection:
        definition = connection.lookupByUUIDString(machine.id).XMLDesc(flags)
    assert "passwd='sesame'" in definition
