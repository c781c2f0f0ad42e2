"""A guest that a test can look at from both sides."""

import time
import uuid
from dataclasses import dataclass

import libvirt
import pytest
from lxml import etree

from worker.nodes.base import AgentUnavailable, Disk, GiB, Image, Machine, Nic, NodeSpec
from worker.nodes.libvirt import LibvirtNode


@dataclass(frozen=True)
class Guest:
    node: LibvirtNode
    machine: Machine
    tap: str
    """The card's other end, on the host."""

    def says(self, script: str) -> bool:
        """Whether the script ends well inside the guest."""
        return self.node.agent_run(self.machine.id, ["sh", "-c", script]).exit_code == 0


@pytest.fixture(scope="module")
def started(hypervisor, tiny_image, tmp_path_factory):
    """A guest on the hypervisor's network that uses the addresses it was given."""
    node = LibvirtNode(NodeSpec("node", "node", "libvirt", hypervisor.uri), tmp_path_factory.mktemp("node"))
    node.prepare_pool("guests", str(hypervisor.directory / "guests"))
    image = Image("tiny.qcow2", tiny_image, tiny_image.stat().st_size)
    node.put_image("guests", image)
    disk = Disk("guests", "started", GiB)
    node.create_disk(disk, image)
    four, six = (gateway.split("/")[0] for gateway in (hypervisor.network.gateway4, hypervisor.network.gateway6))
    nic = Nic("52:54:00:00:77:01", "public", (f"{four}77", f"{six}77"))
    machine = Machine(str(uuid.uuid4()), "started", 1, 256, (disk,), (nic,))
    node.define(machine)
    node.start(machine.id)
    guest = Guest(node, machine, tap_name(hypervisor.uri, machine))
    limit = time.monotonic() + 120
    while not is_answering(guest):
        assert time.monotonic() < limit, "the guest agent never answered"
        time.sleep(0.1)
    addresses = [f"ip addr add {nic.addresses[0]}/24 dev eth0", f"ip addr add {nic.addresses[1]}/64 dev eth0"]
    assert guest.says("; ".join(["ip addr flush dev eth0", "ip link set eth0 up", *addresses, "sleep 3"]))
    yield guest
    node.delete(machine.id)
    node.delete_disk("guests", "started")
    node.close()


def tap_name(uri, machine):
    node = libvirt.open(uri)
    description = etree.fromstring(node.lookupByUUIDString(machine.id).XMLDesc())
    node.close()
    return description.find("devices/interface/target").get("dev")


def is_answering(guest):
    try:
        guest.node.agent_ping(guest.machine.id)
    except AgentUnavailable:
        return False
    return True
