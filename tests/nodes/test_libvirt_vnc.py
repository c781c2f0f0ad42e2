"""Screens of real machines, and where the panel finds them on nodes that are somewhere else."""

import uuid

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
def test_a_screen_is_found_from_the_panels_side(uri, listens, host):
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
def test_a_node_reached_by_ssh_shows_its_screens_by_ssh(uri, listens, host, via):
    assert find_route(listens, uri) == (host, via)


@pytest.mark.parametrize("listens", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("transport", ["tls", "tcp"])
def test_a_screen_on_another_hosts_loopback_cannot_be_reached(listens, transport):
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
    """It runs; there is no guest in it."""
    disk = Disk("screens", "seen", 64 * MiB)
    node.create_disk(disk)
    machine = Machine(str(uuid.uuid4()), "seen", 1, 64, (disk,), vnc_password="sesame")
    node.define(machine)
    node.start(machine.id)
    yield machine
    node.delete(machine.id)
    node.delete_disk(disk.pool, disk.name)


@pytest.mark.guest
def test_who_is_in_stays_in_when_the_password_changes(node, machine):
    screen = node.console(machine.id, "first")
    with vnc_client.connect_signed_in(screen, "first") as connection:
        assert vnc_client.shows_a_picture(connection)
        again = node.console(machine.id, "second")
        assert (again.host, again.port) == (screen.host, screen.port)
        assert not vnc_client.is_admitted(screen, "first")
        assert vnc_client.is_admitted(screen, "second")
        assert vnc_client.shows_a_picture(connection)


@pytest.mark.guest
def test_the_definition_keeps_the_password_it_had(node, machine, hypervisor):
    import libvirt

    node.console(machine.id, "first")
    connection = libvirt.open(hypervisor.uri)
    kept = libvirt.VIR_DOMAIN_XML_SECURE | libvirt.VIR_DOMAIN_XML_INACTIVE
    description = connection.lookupByUUIDString(machine.id).XMLDesc(kept)
    connection.close()
    assert "passwd='sesame'" in description
