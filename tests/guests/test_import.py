"""A machine that somebody defined by hand, with its own disk, becomes an instance and keeps everything on it."""

import shutil
import subprocess
import uuid
from contextlib import closing

import libvirt
import pytest
from lxml import etree

from tests.processes.conftest import wait_until
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
    """A machine that the panel did not make, in the hands of who made it."""

    def __init__(self, hypervisor, node):
        self.id, self.name, self.mac = str(uuid.uuid4()), "old-web", "52:54:00:5e:11:77"
        self.hypervisor, self.node = hypervisor, node
        self.ip = hypervisor.network.gateway4.split("/")[0] + "77"  # 10.88.n.177
        self.disk = hypervisor.directory / "disks" / "old-web.qcow2"

    def define(self):
        described = UNMANAGED_DOMAIN_XML.format(id=self.id, name=self.name, mac=self.mac, disk=self.disk)
        with closing(libvirt.open(self.hypervisor.uri)) as connection:
            connection.defineXML(described).setAutostart(1)

    def definition(self):
        """As its host keeps it, with its passwords."""
        flags = libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE
        with closing(libvirt.open(self.hypervisor.uri)) as connection:
            domain = connection.lookupByUUIDString(self.id)
            return domain.XMLDesc(flags), domain.autostart()

    def starts(self):
        self.node.start(self.id)
        wait_until(self.answers, "the stranger's guest agent")

    def answers(self):
        try:
            self.node.agent_ping(self.id)
        except AgentUnavailable:
            return False
        return True

    def says(self, script):
        done = self.node.agent_run(self.id, ["sh", "-c", script])
        assert done.exit_code == 0, done.output
        return done.output

    def stops(self):
        self.node.shutdown(self.id)
        wait_until(lambda: self.node.power(self.id) is Power.off, "the stranger to be off")


@pytest.fixture(scope="module")
def unmanaged_machine(lab, hypervisor, tiny_image, tmp_path_factory):
    """It runs, has written something and uses an address of the location."""
    node = LibvirtNode(NodeSpec("node", "node", "libvirt", hypervisor.uri), tmp_path_factory.mktemp("node"))
    made = UnmanagedMachine(hypervisor, node)
    shutil.copy(tiny_image, made.disk)
    made.define()
    made.starts()
    made.says(
        f"set -e; ip addr add {made.ip}/24 dev eth0; echo kept > /root/kept; head -c 3000000 /dev/urandom > /root/bytes"
    )
    made.sum = made.says("sync; md5sum < /root/bytes")
    yield made
    node.delete(made.id)
    made.disk.unlink(missing_ok=True)
    node.close()


def get_task(lab, task_id):
    return wait_until(
        lambda: (row := lab.admin("GET", f"/task/{task_id}"))["status"] in ("completed", "failed") and row,
        "the operator's task",
    )


def wait_for_discovery(lab, stranger):
    asked = lab.admin("POST", f"/hypervisor/{lab.node}/orphan/discover")
    assert get_task(lab, asked["task_id"])["status"] == "completed"
    found = lab.admin("GET", f"/hypervisor/{lab.node}/orphan/discoveries/latest")["unknown"]
    return next(machine for machine in found if machine["id"] == stranger.id)


def import_machine(lab, stranger, **body):
    owner = lab.call("GET", "/api/profile")["data"]["id"]
    path = f"/api/v1/hypervisor/{lab.node}/orphan/import/{stranger.name}"
    wanted = {"user_id": owner, "plan_id": lab.plan, "display_name": "Shop", **body}
    return lab.at.call("POST", path, wanted, lab.operator)


def test_it_is_found_with_what_its_guest_tells(lab, unmanaged_machine):
    found = wait_for_discovery(lab, unmanaged_machine)
    assert (found["name"], found["power"], found["cpu_cores"], found["memory_mb"]) == ("old-web", "on", 1, 200)
    [disk] = found["disks"]
    assert (disk["device"], disk["name"], disk["storage"], disk["fault"]) == ("vda", "old-web.qcow2", "default", None)
    [card] = found["nics"]
    assert (card["mac"], card["network"], unmanaged_machine.ip in card["addresses"]) == (
        unmanaged_machine.mac,
        "public",
        True,
    )
    assert found["obstacles"] == []


def test_while_it_runs_it_is_not_touched(lab, unmanaged_machine):
    before = unmanaged_machine.definition()
    status, answer = import_machine(lab, unmanaged_machine)
    assert (status, answer["reason"]) == (409, "not_stopped")
    assert unmanaged_machine.definition() == before
    assert unmanaged_machine.answers()


def test_off_it_is_adopted_with_its_address_and_what_it_has_written(lab, unmanaged_machine):
    """An address that it cannot have changes nothing; then it is an instance like any other."""
    unmanaged_machine.stops()
    before, checksum = unmanaged_machine.definition(), md5(unmanaged_machine.disk)
    assert (
        unmanaged_machine.ip in wait_for_discovery(lab, unmanaged_machine)["nics"][0]["addresses"]
    )  # told while it ran
    status, answer = import_machine(lab, unmanaged_machine, ips=["192.0.2.1"])
    assert (status, list(answer["errors"])) == (422, ["ips"])
    assert unmanaged_machine.definition() == before
    status, answer = import_machine(lab, unmanaged_machine)
    assert (status, answer["data"]["instance_id"]) == (200, unmanaged_machine.id)
    done = get_task(lab, answer["data"]["task_id"])
    assert done["status"] == "completed", done
    shown = lab.call("GET", f"/api/instance/{unmanaged_machine.id}")
    assert (shown["display_name"], shown["state"], shown["primary_public_ip"]["ip"]) == (
        "Shop",
        "stopped",
        unmanaged_machine.ip,
    )
    described, autostart = unmanaged_machine.definition()
    assert (etree.fromstring(described).findtext("name"), autostart) == (shown["name"], 0)
    assert md5(unmanaged_machine.disk) == checksum


def test_the_instance_starts_and_has_its_files(lab, unmanaged_machine):
    instance = {"id": unmanaged_machine.id}
    lab.power(instance, "start")
    wait_until(unmanaged_machine.answers, "the instance's guest agent")
    assert unmanaged_machine.says("cat /root/kept") == "kept\n"
    assert unmanaged_machine.says("md5sum < /root/bytes") == unmanaged_machine.sum
    assert " rw" in unmanaged_machine.says("grep ' / ' /proc/mounts")
    assert unmanaged_machine.says("cat /sys/class/net/eth0/address").strip() == unmanaged_machine.mac
    assert "EXT4-fs error" not in unmanaged_machine.says("dmesg || true")
    addresses = lambda: lab.call("GET", f"/api/instance/{unmanaged_machine.id}/guest-filesystems")["data"]  # noqa: E731
    assert wait_until(addresses, "the guest's report")[0]["mountpoint"] == "/"


def test_its_snapshots_and_its_screen_are_those_of_an_instance(lab, unmanaged_machine):
    def do(path, **body):
        return lab.finished(lab.call("POST", f"/api/instance/{unmanaged_machine.id}/{path}", body)["task_id"])

    do("snapshot", snapname="one", vmstate=False)
    unmanaged_machine.says("rm /root/kept; sync")
    do("snapshot/rollback", snapname="one")
    wait_until(unmanaged_machine.answers, "the instance's guest agent")
    assert unmanaged_machine.says("cat /root/kept") == "kept\n"
    assert unmanaged_machine.node.console(unmanaged_machine.id, "letmein1").password == "letmein1"


def test_destroyed_it_is_gone_with_its_disk(lab, unmanaged_machine):
    lab.destroy({"id": unmanaged_machine.id})
    assert not unmanaged_machine.disk.exists()
    assert unmanaged_machine.id not in {machine.id for machine in unmanaged_machine.node.machines()}


def md5(path):
    return subprocess.run(["md5sum", path], check=True, capture_output=True, text=True).stdout.split()[0]
