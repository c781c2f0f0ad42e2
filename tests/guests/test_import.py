"""Import of a machine that was defined by hand: it becomes an instance and keeps everything on its disk."""

import shutil
import subprocess
import uuid
from contextlib import closing

import libvirt
import pytest
from lxml import etree

from tests.support.waiting import wait_until
from worker.nodes.base import AgentUnavailable, NodeSpec, Power
from worker.nodes.libvirt import LibvirtNode

pytestmark = pytest.mark.guest

UNMANAGED_DOMAIN_XML = """
<domain type='qemu'>
  <name>{name}</name><uuid>{id}</uuid><title>made by hand</title>
  <memory unit='MiB'>200</memory><vcpu>1</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <features><acpi/></features><cpu mode='maximum'/>
  <devices>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2'/><source file='{disk}'/><target dev='vda' bus='virtio'/>
    </disk>
    <disk type='file' device='cdrom'><target dev='sda' bus='sata'/><readonly/></disk>
    <interface type='network'><mac address='{mac}'/><source network='public'/><model type='virtio'/></interface>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <graphics type='vnc' autoport='yes' passwd='theirs'/>
  </devices>
</domain>
"""


class UnmanagedMachine:
    """A machine that the panel did not make, controlled through libvirt."""

    def __init__(self, hypervisor, node):
        self.id, self.name, self.mac = str(uuid.uuid4()), "old-web", "52:54:00:5e:11:77"
        self.hypervisor, self.node = hypervisor, node
        self.ip = hypervisor.network.gateway4.split("/")[0] + "77"  # 10.88.n.177
        self.disk = hypervisor.directory / "disks" / "old-web.qcow2"

    def define(self):
        xml = UNMANAGED_DOMAIN_XML.format(id=self.id, name=self.name, mac=self.mac, disk=self.disk)
        with closing(libvirt.open(self.hypervisor.uri)) as connection:
            connection.defineXML(xml).setAutostart(1)

    def get_definition(self):
        """Return the stored XML with its passwords, and whether it starts with the host."""
        flags = libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE
        with closing(libvirt.open(self.hypervisor.uri)) as connection:
            domain = connection.lookupByUUIDString(self.id)
            return domain.XMLDesc(flags), domain.autostart()

    def start(self):
        self.node.start(self.id)
        wait_until(self.is_answering, "the machine's guest agent")

    def is_answering(self):
        try:
            self.node.agent_ping(self.id)
        except AgentUnavailable:
            return False
        return True

    def run(self, script):
        result = self.node.agent_run(self.id, ["sh", "-c", script])
        assert result.exit_code == 0, result.output
        return result.output

    def stop(self):
        self.node.shutdown(self.id)
        wait_until(lambda: self.node.power(self.id) is Power.off, "the machine to be off")


@pytest.fixture(scope="module")
def unmanaged_machine(lab, hypervisor, tiny_image, tmp_path_factory):
    """A running machine that has written files and uses an address of the location."""
    node = LibvirtNode(NodeSpec("node", "node", "libvirt", hypervisor.uri), tmp_path_factory.mktemp("node"))
    machine = UnmanagedMachine(hypervisor, node)
    shutil.copy(tiny_image, machine.disk)
    machine.define()
    machine.start()
    machine.run(f"ip addr add {machine.ip}/24 dev eth0")
    machine.run("echo kept > /root/kept; head -c 3000000 /dev/urandom > /root/bytes")
    machine.sum = machine.run("sync; md5sum < /root/bytes")
    yield machine
    node.delete(machine.id)
    machine.disk.unlink(missing_ok=True)
    node.close()


def wait_for_admin_task(lab, task_id):
    return wait_until(
        lambda: (row := lab.call_admin("GET", f"/task/{task_id}"))["status"] in ("completed", "failed") and row,
        "the operator's task",
    )


def wait_for_discovery(lab, machine):
    answer = lab.call_admin("POST", f"/hypervisor/{lab.node}/orphan/discover")
    assert wait_for_admin_task(lab, answer["task_id"])["status"] == "completed"
    machines = lab.call_admin("GET", f"/hypervisor/{lab.node}/orphan/discoveries/latest")["unknown"]
    return next(row for row in machines if row["id"] == machine.id)


def import_machine(lab, machine, **body):
    owner = lab.call("GET", "/api/profile")["data"]["id"]
    path = f"/api/v1/hypervisor/{lab.node}/orphan/import/{machine.name}"
    body = {"user_id": owner, "plan_id": lab.plan, "display_name": "Shop", **body}
    return lab.installation.call("POST", path, body, lab.operator)


def test_discovery_reports_machine_and_guest_addresses(lab, unmanaged_machine):
    discovered = wait_for_discovery(lab, unmanaged_machine)
    assert (discovered["name"], discovered["power"], discovered["cpu_cores"], discovered["memory_mb"]) == (
        "old-web",
        "on",
        1,
        200,
    )
    [disk] = discovered["disks"]
    assert (disk["device"], disk["name"], disk["storage"], disk["fault"]) == ("vda", "old-web.qcow2", "default", None)
    [card] = discovered["nics"]
    assert (card["mac"], card["network"], unmanaged_machine.ip in card["addresses"]) == (
        unmanaged_machine.mac,
        "public",
        True,
    )
    assert discovered["obstacles"] == []


def test_import_of_running_machine_is_refused(lab, unmanaged_machine):
    before = unmanaged_machine.get_definition()
    status, answer = import_machine(lab, unmanaged_machine)
    assert (status, answer["reason"]) == (409, "not_stopped")
    assert unmanaged_machine.get_definition() == before
    assert unmanaged_machine.is_answering()


def test_import_of_stopped_machine_keeps_disk_and_address(lab, unmanaged_machine):
    """A refused address changes nothing."""
    unmanaged_machine.stop()
    before, checksum = unmanaged_machine.get_definition(), md5(unmanaged_machine.disk)
    assert (
        unmanaged_machine.ip in wait_for_discovery(lab, unmanaged_machine)["nics"][0]["addresses"]
    )  # told while it ran
    status, answer = import_machine(lab, unmanaged_machine, ips=["192.0.2.1"])
    assert (status, list(answer["errors"])) == (422, ["ips"])
    assert unmanaged_machine.get_definition() == before
    status, answer = import_machine(lab, unmanaged_machine)
    assert (status, answer["data"]["instance_id"]) == (200, unmanaged_machine.id)
    task = wait_for_admin_task(lab, answer["data"]["task_id"])
    assert task["status"] == "completed", task
    shown = lab.call("GET", f"/api/instance/{unmanaged_machine.id}")
    assert (shown["display_name"], shown["state"], shown["primary_public_ip"]["ip"]) == (
        "Shop",
        "stopped",
        unmanaged_machine.ip,
    )
    xml, autostart = unmanaged_machine.get_definition()
    assert (etree.fromstring(xml).findtext("name"), autostart) == (shown["name"], 0)
    assert md5(unmanaged_machine.disk) == checksum


def test_imported_instance_starts_with_its_files(lab, unmanaged_machine):
    instance = {"id": unmanaged_machine.id}
    lab.run_power_action(instance, "start")
    wait_until(unmanaged_machine.is_answering, "the instance's guest agent")
    assert unmanaged_machine.run("cat /root/kept") == "kept\n"
    assert unmanaged_machine.run("md5sum < /root/bytes") == unmanaged_machine.sum
    assert " rw" in unmanaged_machine.run("grep ' / ' /proc/mounts")
    assert unmanaged_machine.run("cat /sys/class/net/eth0/address").strip() == unmanaged_machine.mac
    assert "EXT4-fs error" not in unmanaged_machine.run("dmesg || true")
    addresses = lambda: lab.call("GET", f"/api/instance/{unmanaged_machine.id}/guest-filesystems")["data"]  # noqa: E731
    assert wait_until(addresses, "the guest's report")[0]["mountpoint"] == "/"


def test_imported_instance_has_snapshots_and_screen(lab, unmanaged_machine):
    def do(path, **body):
        return lab.wait_for_task(lab.call("POST", f"/api/instance/{unmanaged_machine.id}/{path}", body)["task_id"])

    do("snapshot", snapname="one", vmstate=False)
    unmanaged_machine.run("rm /root/kept; sync")
    do("snapshot/rollback", snapname="one")
    wait_until(unmanaged_machine.is_answering, "the instance's guest agent")
    assert unmanaged_machine.run("cat /root/kept") == "kept\n"
    assert unmanaged_machine.node.console(unmanaged_machine.id, "letmein1").password == "letmein1"


def test_destroy_removes_imported_machine_and_disk(lab, unmanaged_machine):
    lab.destroy({"id": unmanaged_machine.id})
    assert not unmanaged_machine.disk.exists()
    assert unmanaged_machine.id not in {machine.id for machine in unmanaged_machine.node.machines()}


def md5(path):
    return subprocess.run(["md5sum", path], check=True, capture_output=True, text=True).stdout.split()[0]
