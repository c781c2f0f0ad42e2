"""What lies below a real guest: its TPM and its firmware, and what stays of them on the node."""

import io
import json
import uuid
from dataclasses import replace

import libvirt
import libvirt_qemu
import pytest
from lxml import etree

from worker.nodes.base import Disk, GiB, Machine, NodeSpec, Power
from worker.nodes.libvirt import LibvirtNode

pytestmark = pytest.mark.guest

TABLES = "/sys/firmware/acpi/tables"


def domain(hypervisor, machine_id):
    return libvirt.open(hypervisor.uri).lookupByUUIDString(machine_id)


def monitor(hypervisor, machine_id, words):
    """What QEMU itself answers."""
    asked = json.dumps({"execute": "human-monitor-command", "arguments": {"command-line": words}})
    return json.loads(libvirt_qemu.qemuMonitorCommand(domain(hypervisor, machine_id), asked, 0))["return"]


def tpm_state(hypervisor, machine_id):
    return hypervisor.directory / "lib" / "swtpm" / machine_id


def test_a_guest_has_its_tpm(lab, hypervisor):
    """INS-87, INS-88: QEMU has it, the guest finds it, the switch takes it away, and it goes with the instance."""
    made = lab.create()
    lab.install(made, ssh_keys=[lab.key_id])
    guest = lab.show(made)
    ip = guest["primary_public_ip"]["ip"]
    assert "TPM2" not in lab.ssh(ip, f"ls {TABLES}")
    status, answer = lab.at.call("POST", f"/api/instance/{guest['id']}/tpm/enable", None, lab.token)
    assert (status, answer["reason"]) == (409, "not_stopped")
    lab.power(guest, "poweroff")
    lab.finished(lab.call("POST", f"/api/instance/{guest['id']}/tpm/enable")["task_id"])
    lab.power(guest, "start")
    assert "TPM2" in lab.ssh(ip, f"ls {TABLES}")
    assert "model=tpm-tis" in monitor(hypervisor, guest["id"], "info tpm")
    found = etree.fromstring(domain(hypervisor, guest["id"]).XMLDesc()).find("devices/tpm/backend")
    assert (found.get("type"), found.get("version")) == ("emulator", "2.0")
    lab.power(guest, "poweroff")
    lab.finished(lab.call("POST", f"/api/instance/{guest['id']}/tpm/disable")["task_id"])
    assert tpm_state(hypervisor, guest["id"]).exists()
    lab.destroy(guest)
    assert not tpm_state(hypervisor, guest["id"]).exists()


@pytest.fixture
def node(hypervisor, tmp_path):
    node = LibvirtNode(NodeSpec("node", "node", "libvirt", hypervisor.uri), tmp_path)
    node.prepare_pool("firmware", str(hypervisor.directory / "firmware"))
    yield node
    node.close()


@pytest.fixture
def secured(node):
    """A machine with secure boot and a TPM, without a system."""
    disk = Disk("firmware", "secured", GiB)
    node.create_disk(disk)
    machine = Machine(str(uuid.uuid4()), "secured", 1, 256, (disk,), tpm=True, secure_boot=True)
    node.define(machine)
    node.start(machine.id)
    yield machine
    node.delete(machine.id)
    node.delete_disk("firmware", "secured")


def test_secure_boot_is_in_the_machine(node, hypervisor, secured):
    """The firmware is the one with enrolled keys and memory that only system management mode writes; its variables and
    the TPM are kept over another definition, and go with the machine."""
    described = etree.fromstring(domain(hypervisor, secured.id).XMLDesc())
    assert described.find("os/loader").get("secure") == "yes"
    features = {each.get("name"): each.get("enabled") for each in described.iterfind("os/firmware/feature")}
    assert features == {"enrolled-keys": "yes", "secure-boot": "yes"}
    assert described.find("os/type").get("machine").startswith("pc-q35")
    drives = [each.find("target").get("bus") for each in described.iterfind("devices/disk[@device='cdrom']")]
    assert drives == ["scsi", "sata", "sata"]
    variables = hypervisor.directory / "lib" / "qemu" / "nvram" / "secured_VARS.fd"
    assert variables.exists()
    node.power_off(secured.id)
    node.define(replace(secured, tpm=False, secure_boot=False))
    assert variables.exists()
    node.delete(secured.id)
    assert not variables.exists()
    assert not tpm_state(hypervisor, secured.id).exists()


def test_disks_and_media_come_and_go_while_it_runs(node, hypervisor, secured):
    """On its other buses, too."""
    more = Disk("firmware", "more", GiB)
    node.create_disk(more)
    node.attach_disk(secured.id, more)
    medium = node.upload_media("firmware", "medium.iso", io.BytesIO(bytes(1024**2)), 1024**2)
    node.set_media(secured.id, "primary", medium)
    described = etree.fromstring(domain(hypervisor, secured.id).XMLDesc())
    files = {each.get("file").rpartition("/")[2] for each in described.iterfind("devices/disk/source")}
    assert files == {"secured", "more", "medium.iso"}
    node.set_media(secured.id, "primary", None)
    node.power_off(secured.id)
    node.detach_disk(secured.id, "firmware", "more")
    assert node.power(secured.id) is Power.off
    for name in ("more", "medium.iso"):
        node.delete_disk("firmware", name)
