"""TPM and firmware of real machines, and what stays of them on the node."""

import io
import json
import uuid
from dataclasses import replace

import libvirt_qemu
import pytest
from lxml import etree

from tests.guests.domains import find_domain
from worker.nodes.base import Disk, GiB, Machine, NodeSpec, Power
from worker.nodes.libvirt import LibvirtNode

pytestmark = pytest.mark.guest

TABLES = "/sys/firmware/acpi/tables"


def query_monitor(hypervisor, machine_id, command_line):
    """Return the answer of QEMU's monitor."""
    command = json.dumps({"execute": "human-monitor-command", "arguments": {"command-line": command_line}})
    return json.loads(libvirt_qemu.qemuMonitorCommand(find_domain(hypervisor, machine_id), command, 0))["return"]


def get_tpm_directory(hypervisor, machine_id):
    return hypervisor.directory / "lib" / "swtpm" / machine_id


def test_tpm_appears_in_guest_and_is_not_captured(lab, hypervisor):
    """INS-87, INS-88: QEMU has it, the guest finds it, the switch takes it away, and it goes with the instance. What it
    holds stays the machine's: an image is a disk. One made of it boots without a TPM and with one."""
    first = lab.create()
    lab.switch_option(first, "tpm", "enable")
    lab.install(first, ssh_keys=[lab.key_id])
    first = lab.get_instance(first)
    ip = first["primary_public_ip"]["ip"]
    assert "TPM2" in lab.ssh(ip, f"ls {TABLES}; echo kept > /root/kept; sync")
    assert "model=tpm-tis" in query_monitor(hypervisor, first["id"], "info tpm")
    backend = etree.fromstring(find_domain(hypervisor, first["id"]).XMLDesc()).find("devices/tpm/backend")
    assert (backend.get("type"), backend.get("version")) == ("emulator", "2.0")
    lab.run_power_action(first, "poweroff")

    other = lab.create()
    lab.install(other, image_id=lab.capture_image(first, "with a TPM"), ssh_keys=[lab.key_id])
    other_ip = lab.get_instance(other)["primary_public_ip"]["ip"]
    assert lab.ssh(other_ip, "cat /root/kept").strip() == "kept"
    assert "TPM2" not in lab.ssh(other_ip, f"ls {TABLES}")
    status, answer = lab.installation.call("POST", f"/api/instance/{other['id']}/tpm/enable", None, lab.token)
    assert (status, answer["reason"]) == (409, "not_stopped")
    lab.run_power_action(other, "poweroff")
    lab.switch_option(other, "tpm", "enable")
    lab.run_power_action(other, "start")
    assert "TPM2" in lab.ssh(other_ip, f"ls {TABLES}")
    states = [
        (get_tpm_directory(hypervisor, instance["id"]) / "tpm2" / "tpm2-00.permall").read_bytes()
        for instance in (first, other)
    ]
    assert states[0] != states[1]
    lab.destroy(other)

    lab.switch_option(first, "tpm", "disable")
    assert get_tpm_directory(hypervisor, first["id"]).exists()
    lab.destroy(first)
    assert not get_tpm_directory(hypervisor, first["id"]).exists()


@pytest.fixture
def node(hypervisor, tmp_path):
    node = LibvirtNode(NodeSpec("node", "node", "libvirt", hypervisor.uri), tmp_path)
    node.prepare_pool("firmware", str(hypervisor.directory / "firmware"))
    yield node
    node.close()


@pytest.fixture
def secure_boot_machine(node):
    """A machine with secure boot and a TPM, without a system."""
    disk = Disk("firmware", "secured", GiB)
    node.create_disk(disk)
    machine = Machine(str(uuid.uuid4()), "secured", 1, 256, (disk,), tpm=True, secure_boot=True)
    node.define(machine)
    node.start(machine.id)
    yield machine
    node.delete(machine.id)
    node.delete_disk("firmware", "secured")


def test_secure_boot_machine_has_enrolled_keys_and_keeps_variables(node, hypervisor, secure_boot_machine):
    """The firmware is the one with enrolled keys and memory that only system management mode writes; its variables and
    the TPM are kept over another definition, and go with the machine."""
    described = etree.fromstring(find_domain(hypervisor, secure_boot_machine.id).XMLDesc())
    assert described.find("os/loader").get("secure") == "yes"
    features = {feature.get("name"): feature.get("enabled") for feature in described.iterfind("os/firmware/feature")}
    assert features == {"enrolled-keys": "yes", "secure-boot": "yes"}
    assert described.find("os/type").get("machine").startswith("pc-q35")
    drives = [drive.find("target").get("bus") for drive in described.iterfind("devices/disk[@device='cdrom']")]
    assert drives == ["scsi", "sata", "sata"]
    variables = hypervisor.directory / "lib" / "qemu" / "nvram" / "secured_VARS.fd"
    assert variables.exists()
    node.power_off(secure_boot_machine.id)
    node.define(replace(secure_boot_machine, tpm=False, secure_boot=False))
    assert variables.exists()
    node.delete(secure_boot_machine.id)
    assert not variables.exists()
    assert not get_tpm_directory(hypervisor, secure_boot_machine.id).exists()


def test_secure_boot_machine_hotplugs_disks_and_media(node, hypervisor, secure_boot_machine):
    disk = Disk("firmware", "more", GiB)
    node.create_disk(disk)
    node.attach_disk(secure_boot_machine.id, disk)
    media = node.upload_media("firmware", "medium.iso", io.BytesIO(bytes(1024**2)), 1024**2)
    node.set_media(secure_boot_machine.id, "primary", media)
    described = etree.fromstring(find_domain(hypervisor, secure_boot_machine.id).XMLDesc())
    files = {source.get("file").rpartition("/")[2] for source in described.iterfind("devices/disk/source")}
    assert files == {"secured", "more", "medium.iso"}
    node.set_media(secure_boot_machine.id, "primary", None)
    node.power_off(secure_boot_machine.id)
    node.detach_disk(secure_boot_machine.id, "firmware", "more")
    assert node.power(secure_boot_machine.id) is Power.off
    for name in ("more", "medium.iso"):
        node.delete_disk("firmware", name)
