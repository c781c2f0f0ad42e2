"""Machines that were defined by hand: what is unsupported, and that reverting an import restores their definition."""

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
def connection(hypervisor):
    with closing(libvirt.open(hypervisor.uri)) as connection:
        yield connection


@pytest.fixture
def define_by_hand(node, folder, connection, tiny_image):
    """Return a function that defines such a machine; its disk is a file in the pool's folder."""
    machine_ids = []

    def define(devices=DISK, system="", more="", machine="q35"):
        machine_ids.append(str(uuid.uuid4()))
        path = folder / f"{machine_ids[-1]}.qcow2"
        shutil.copy(tiny_image, path)
        values = {"id": machine_ids[-1], "mac": MAC, "system": system, "more": more, "machine": machine}
        connection.defineXML(BY_HAND.format(devices=devices.format(path=path), **values))
        return machine_ids[-1]

    yield define
    for machine_id in machine_ids:
        node.delete(machine_id)
        node.delete_disk(POOL, f"{machine_id}.qcow2")


def panel_spec(machine_id):
    """Return the machine as the panel would define it."""
    nic, disk = Nic(MAC, "public", ("10.88.0.9",)), Disk(POOL, f"{machine_id}.qcow2", 0)
    return Machine(machine_id, f"h{uuid.uuid4().int % 10**8:08}", 1, 128, (disk,), (nic,), vnc_password="letmein")


def read_definition(connection, machine_id):
    domain = connection.lookupByUUIDString(machine_id)
    return domain.XMLDesc(FLAGS), domain.autostart()


def test_machine_with_disk_in_pool_folder_is_described(node, define_by_hand):
    description = node.describe_machine(machine_id := define_by_hand())
    assert (description.name, description.power, description.memory_mb) == ("by-hand", Power.off, 64)
    assert description.faults == ()
    assert [(disk.name, disk.pool, disk.fault) for disk in description.disks] == [(f"{machine_id}.qcow2", POOL, None)]
    assert description.nics == (Nic(MAC, "public"),)


def test_reverted_import_restores_exact_definition(node, define_by_hand, connection):
    """With its title, its notes, its password, its other machine type, and starting with its host."""
    machine_id = define_by_hand()
    connection.lookupByUUIDString(machine_id).setAutostart(1)
    before = read_definition(connection, machine_id)
    imported = panel_spec(machine_id)
    for _ in range(2):
        node.import_machine(imported)
        definition, autostart = read_definition(connection, machine_id)
        assert (etree.fromstring(definition).findtext("name"), autostart) == (imported.name, 0)
        assert "letmein" in definition
    node.revert_import(machine_id)
    assert read_definition(connection, machine_id) == before
    assert f"panel-{MAC.replace(':', '')}" not in {nic_filter.name() for nic_filter in connection.listAllNWFilters()}


def test_refused_import_changes_nothing(node, define_by_hand, connection):
    """After the machine was renamed: it gets its name back."""
    machine_id = define_by_hand()
    before = read_definition(connection, machine_id)
    imported = panel_spec(machine_id)
    twice = Machine(**{**vars(imported), "topology": (3, 1, 1)})  # more sockets than processors
    with pytest.raises(Refused):
        node.import_machine(twice)
    assert read_definition(connection, machine_id) == before
    taken = define_empty_machine(connection, imported.name)
    with pytest.raises(Refused):
        node.import_machine(imported)
    assert read_definition(connection, machine_id) == before
    taken.undefine()


def define_empty_machine(connection, name):
    return connection.defineXML(
        f"<domain type='qemu'><name>{name}</name><memory>65536</memory><os><type>hvm</type></os></domain>"
    )


def test_imported_machine_defined_again_cannot_be_reverted(node, define_by_hand, connection):
    machine_id = define_by_hand()
    imported = panel_spec(machine_id)
    node.import_machine(imported)
    node.define(imported)
    assert "before:definition" not in read_definition(connection, machine_id)[0]
    node.revert_import(machine_id)
    assert node.describe_machine(machine_id).name == imported.name


UNSUPPORTED_DISKS = {
    "is raw": DISK.replace("qcow2'/><s", "raw'/><s"),
    "is on the bus sata": DISK.replace("vda' bus='virtio", "sda' bus='sata"),
    "is readonly": DISK.replace("<target", "<readonly/><target"),
    "is no file (block)": "<disk type='block' device='disk'><driver name='qemu' type='qcow2'/>"
    "<source dev='/dev/none'/><target dev='vda' bus='virtio'/></disk>",
    "is no file (network)": "<disk type='network' device='disk'><driver name='qemu' type='qcow2'/>"
    "<source protocol='rbd' name='pool/far'><host name='far.example'/></source><target dev='vda' bus='virtio'/></disk>",
}


@pytest.mark.parametrize("reason", UNSUPPORTED_DISKS)
def test_unsupported_disk_has_fault(node, define_by_hand, reason):
    [disk] = node.describe_machine(define_by_hand(UNSUPPORTED_DISKS[reason])).disks
    assert disk.fault.startswith(reason)


def test_disk_outside_of_pools_is_described_by_path(node, define_by_hand, tmp_path, tiny_image):
    shutil.copy(tiny_image, tmp_path / "far.qcow2")
    [disk] = node.describe_machine(define_by_hand(DISK.format(path=tmp_path / "far.qcow2"))).disks
    assert (disk.pool, disk.name, disk.fault) == (None, str(tmp_path / "far.qcow2"), None)


def test_boot_disk_comes_first(node, define_by_hand, folder, tiny_image):
    shutil.copy(tiny_image, folder / "second.qcow2")
    second = (
        DISK.format(path=folder / "second.qcow2").replace("vda'", "vdb'").replace("</disk>", "<boot order='1'/></disk>")
    )
    description = node.describe_machine(define_by_hand(DISK + second))
    assert [disk.device for disk in description.disks] == ["vdb", "vda"]
    (folder / "second.qcow2").unlink()


UNSUPPORTED_MACHINES = {
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


@pytest.mark.parametrize("text", UNSUPPORTED_MACHINES)
def test_unsupported_machine_has_fault(node, define_by_hand, text):
    [sentence] = node.describe_machine(define_by_hand(**UNSUPPORTED_MACHINES[text])).faults
    assert text in sentence


def test_foreign_snapshots_are_a_fault(node, define_by_hand, connection):
    machine_id = define_by_hand()
    connection.lookupByUUIDString(machine_id).snapshotCreateXML("<domainsnapshot><name>old</name></domainsnapshot>")
    [sentence] = node.describe_machine(machine_id).faults
    assert "snapshots" in sentence
