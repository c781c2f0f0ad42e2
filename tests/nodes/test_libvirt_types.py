"""Machine types on a real libvirt: existing machines keep theirs, with everything that depends on it."""

import io
import uuid
from contextlib import closing
from dataclasses import replace

import libvirt
import pytest
from lxml import etree

from worker.nodes.base import Disk, Machine, NodeSpec, Power
from worker.nodes.libvirt import LibvirtNode, chipset

pytestmark = pytest.mark.guest
MiB = 1024**2


@pytest.fixture
def node(hypervisor, tmp_path):
    node = LibvirtNode(NodeSpec("node", "node", "libvirt", hypervisor.uri), tmp_path)
    node.prepare_pool("types", str(hypervisor.directory / "types"))
    yield node
    node.close()


@pytest.fixture
def earlier_machine(node, monkeypatch):
    """A machine as an earlier release defined it, and a medium."""
    machine = Machine(str(uuid.uuid4()), "earlier", 1, 64, (Disk("types", "earlier", 16 * MiB),))
    node.create_disk(machine.disks[0])
    with monkeypatch.context() as patch:
        patch.setattr(chipset, "choose_machine_type", lambda machine, existing="": "pc-i440fx-6.2")
        node.define(machine)
    yield machine
    node.delete(machine.id)
    for name in ("earlier", "more", "medium.iso"):
        node.delete_disk("types", name)


def read_definition(hypervisor, machine):
    with closing(libvirt.open(hypervisor.uri)) as connection:
        return etree.fromstring(connection.lookupByUUIDString(machine.id).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))


def test_redefined_machine_keeps_machine_type(hypervisor, node, earlier_machine):
    """New machines are q35, existing ones keep theirs, also when they are defined again for a rescue, a
    reinstall or a change of plan. Disks and media come and go as before."""
    node.define(replace(earlier_machine, memory_mb=96, boot=("cdrom", "disk")))
    definition = read_definition(hypervisor, earlier_machine)
    assert definition.find("os/type").get("machine") == "pc-i440fx-6.2"
    drives = [drive.find("target").get("dev") for drive in definition.iterfind("devices/disk[@device='cdrom']")]
    assert drives == ["hda", "hdc", "hdd"]
    second_disk, media = Disk("types", "more", 16 * MiB), io.BytesIO(bytes(MiB))
    node.create_disk(second_disk)
    node.start(earlier_machine.id)
    node.set_media(earlier_machine.id, "primary", node.upload_media("types", "medium.iso", media, MiB))
    node.attach_disk(earlier_machine.id, second_disk)
    assert node.power(earlier_machine.id) is Power.on
    node.power_off(earlier_machine.id)
    node.define(replace(earlier_machine, secure_boot=True))
    assert read_definition(hypervisor, earlier_machine).find("os/type").get("machine").startswith("pc-q35-")


def test_new_machine_takes_a_disk_per_spare_port(hypervisor, node):
    """Every port that is spare takes a disk while the machine runs."""
    disks = [Disk("types", f"many{number}", MiB) for number in range(chipset.SPARE_PORTS + 1)]
    for disk in disks:
        node.create_disk(disk)
    machine = Machine(str(uuid.uuid4()), "many", 1, 64, tuple(disks[:1]))
    node.define(machine)
    node.start(machine.id)
    for disk in disks[1:]:
        node.attach_disk(machine.id, disk)
    assert len(read_definition(hypervisor, machine).findall("devices/disk[@device='disk']")) == len(disks)
    node.delete(machine.id)
    for disk in disks:
        node.delete_disk("types", disk.name)
