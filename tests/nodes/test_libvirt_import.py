"""Machines that were defined by hand: what of them an instance cannot have, and that they come back to the letter."""

import shutil
import uuid
from contextlib import closing

import libvirt
import pytest
from lxml import etree

from worker.nodes.base import Disk, Machine, Nic, NodeSpec, Power, Refused
from worker.nodes.libvirt import LibvirtNode

pytestmark = pytest.mark.guest

POOL, MAC = "theirs", "52:54:00:5e:22:01"
BY_HAND = """
<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>by-hand</name><uuid>{id}</uuid><title>of somebody</title>
  <metadata><their:note xmlns:their='urn:their:note'>kept</their:note></metadata>
  <memory unit='KiB'>65000</memory><vcpu>1</vcpu>
  <os><type arch='x86_64' machine='{machine}'>hvm</type>{system}</os>
  <features><acpi/></features>
  <devices>
    {devices}
    <interface type='network'><mac address='{mac}'/><source network='public'/><model type='e1000'/></interface>
    <graphics type='vnc' autoport='yes' passwd='theirs'/>
  </devices>
  {more}
</domain>
"""
DISK = """<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='{path}'/>
          <target dev='vda' bus='virtio'/></disk>"""
FLAGS = libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE


@pytest.fixture(scope="module")
def folder(hypervisor):
    return hypervisor.directory / "theirs"


@pytest.fixture(scope="module")
def node(hypervisor, folder, tmp_path_factory):
    node = LibvirtNode(NodeSpec("node", "node", "libvirt", hypervisor.uri), tmp_path_factory.mktemp("node"))
    node.prepare_pool(POOL, str(folder))
    yield node
    node.close()


@pytest.fixture
def line(hypervisor):
    with closing(libvirt.open(hypervisor.uri)) as line:
        yield line


@pytest.fixture
def by_hand(node, folder, line, tiny_image):
    """Defines such a machine; its disk was put into the pool's folder as a file."""
    made = []

    def define(devices=DISK, system="", more="", machine="q35"):
        made.append(str(uuid.uuid4()))
        path = folder / f"{made[-1]}.qcow2"
        shutil.copy(tiny_image, path)
        values = {"id": made[-1], "mac": MAC, "system": system, "more": more, "machine": machine}
        line.defineXML(BY_HAND.format(devices=devices.format(path=path), **values))
        return made[-1]

    yield define
    for machine_id in made:
        node.delete(machine_id)
        node.delete_disk(POOL, f"{machine_id}.qcow2")


def panel_spec(machine_id):
    """How the panel would have it."""
    nic, disk = Nic(MAC, "public", ("10.88.0.9",)), Disk(POOL, f"{machine_id}.qcow2", 0)
    return Machine(machine_id, f"h{uuid.uuid4().int % 10**8:08}", 1, 128, (disk,), (nic,), vnc_password="letmein")


def kept_definition(line, machine_id):
    domain = line.lookupByUUIDString(machine_id)
    return domain.XMLDesc(FLAGS), domain.autostart()


def test_what_was_put_into_the_folder_is_found(node, by_hand):
    found = node.describe_machine(machine_id := by_hand())
    assert (found.name, found.power, found.memory_mb, found.faults) == ("by-hand", Power.off, 64, ())
    assert [(disk.name, disk.pool, disk.fault) for disk in found.disks] == [(f"{machine_id}.qcow2", POOL, None)]
    assert found.nics == (Nic(MAC, "public"),)


def test_it_comes_back_to_the_letter(node, by_hand, line):
    """With its title, its notes, its password, its other machine type, and starting with its host."""
    machine_id = by_hand()
    line.lookupByUUIDString(machine_id).setAutostart(1)
    before = kept_definition(line, machine_id)
    wanted = panel_spec(machine_id)
    for _ in range(2):
        node.import_machine(wanted)
        described, autostart = kept_definition(line, machine_id)
        assert (etree.fromstring(described).findtext("name"), autostart) == (wanted.name, 0)
        assert "letmein" in described
    node.revert_import(machine_id)
    assert kept_definition(line, machine_id) == before
    assert f"panel-{MAC.replace(':', '')}" not in {each.name() for each in line.listAllNWFilters()}


def test_a_definition_that_libvirt_refuses_changes_nothing(node, by_hand, line):
    """After the machine was renamed: it gets its name back."""
    machine_id = by_hand()
    before = kept_definition(line, machine_id)
    wanted = panel_spec(machine_id)
    twice = Machine(**{**vars(wanted), "topology": (3, 1, 1)})  # more sockets than processors
    with pytest.raises(Refused):
        node.import_machine(twice)
    assert kept_definition(line, machine_id) == before
    taken = by_hand_named(line, wanted.name)
    with pytest.raises(Refused):
        node.import_machine(wanted)
    assert kept_definition(line, machine_id) == before
    taken.undefine()


def by_hand_named(line, name):
    return line.defineXML(
        f"<domain type='qemu'><name>{name}</name><memory>65536</memory><os><type>hvm</type></os></domain>"
    )


def test_once_defined_anew_it_stays_the_panel_s(node, by_hand, line):
    machine_id = by_hand()
    wanted = panel_spec(machine_id)
    node.import_machine(wanted)
    node.define(wanted)
    assert "before:definition" not in kept_definition(line, machine_id)[0]
    node.revert_import(machine_id)
    assert node.describe_machine(machine_id).name == wanted.name


ODD_DISKS = {
    "is raw": DISK.replace("qcow2'/><s", "raw'/><s"),
    "is on the bus sata": DISK.replace("vda' bus='virtio", "sda' bus='sata"),
    "is readonly": DISK.replace("<target", "<readonly/><target"),
    "is no file (block)": "<disk type='block' device='disk'><driver name='qemu' type='qcow2'/>"
    "<source dev='/dev/none'/><target dev='vda' bus='virtio'/></disk>",
    "is no file (network)": "<disk type='network' device='disk'><driver name='qemu' type='qcow2'/>"
    "<source protocol='rbd' name='pool/far'><host name='far.example'/></source><target dev='vda' bus='virtio'/></disk>",
}


@pytest.mark.parametrize("why", ODD_DISKS)
def test_a_disk_that_an_instance_cannot_have(node, by_hand, why):
    [disk] = node.describe_machine(by_hand(ODD_DISKS[why])).disks
    assert disk.fault.startswith(why)


def test_a_disk_outside_of_the_pools(node, by_hand, tmp_path, tiny_image):
    shutil.copy(tiny_image, tmp_path / "far.qcow2")
    [disk] = node.describe_machine(by_hand(DISK.format(path=tmp_path / "far.qcow2"))).disks
    assert (disk.pool, disk.name, disk.fault) == (None, str(tmp_path / "far.qcow2"), None)


def test_the_disk_that_it_boots_from_comes_first(node, by_hand, folder, tiny_image):
    shutil.copy(tiny_image, folder / "second.qcow2")
    second = (
        DISK.format(path=folder / "second.qcow2").replace("vda'", "vdb'").replace("</disk>", "<boot order='1'/></disk>")
    )
    found = node.describe_machine(by_hand(DISK + second))
    assert [disk.device for disk in found.disks] == ["vdb", "vda"]
    (folder / "second.qcow2").unlink()


ODD = {
    "UEFI": {"system": "<loader readonly='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE.fd</loader>"},
    "kernel": {"system": "<kernel>/boot/vmlinuz</kernel>"},
    "QEMU": {"more": "<qemu:commandline><qemu:arg value='-snapshot'/></qemu:commandline>"},
    "TPM": {
        "devices": DISK + "<tpm model='tpm-tis'><backend type='passthrough'><device path='/dev/tpm0'/></backend></tpm>"
    },
    "passed through": {
        "devices": DISK + "<filesystem type='mount'><source dir='/srv'/><target dir='srv'/></filesystem>"
    },
}


@pytest.mark.parametrize("word", ODD)
def test_what_an_instance_cannot_have(node, by_hand, word):
    [sentence] = node.describe_machine(by_hand(**ODD[word])).faults
    assert word in sentence


def test_snapshots_of_somebody_else_are_in_the_way(node, by_hand, line):
    machine_id = by_hand()
    line.lookupByUUIDString(machine_id).snapshotCreateXML("<domainsnapshot><name>old</name></domainsnapshot>")
    [sentence] = node.describe_machine(machine_id).faults
    assert "snapshots" in sentence
