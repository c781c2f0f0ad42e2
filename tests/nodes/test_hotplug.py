"""What every driver promises about disks that come and go."""

import pytest

from tests.nodes.driver_lab import POOL, MiB, disk_sizes, get_agreed_power, wait_for_agent, wait_until
from worker.nodes.base import Disk, GiB, NotOnNode, Power


def read_sectors(node, machine, letter):
    result = node.agent_run(machine.id, ["cat", f"/sys/class/block/vd{letter}/size"])
    return int(result.output) if result.exit_code == 0 else None


def test_running_guest_sees_disks_come_and_go(lab, node, guest, new_disk):
    """Those that are attached, while the guest runs or is off, are there after its next boot."""
    disks = new_disk(), new_disk(32 * MiB), new_disk(16 * MiB)
    for _ in range(2):
        node.attach_disk(guest.id, disks[0])
    wait_until(lambda: read_sectors(node, guest, "b") == 64 * MiB // 512)
    node.attach_disk(guest.id, disks[1])
    wait_until(lambda: read_sectors(node, guest, "c") == 32 * MiB // 512)
    for _ in range(2):
        lab.open_node().detach_disk(guest.id, POOL, disks[1].name)
        assert read_sectors(node, guest, "c") is None
    node.power_off(guest.id)
    node.attach_disk(guest.id, disks[2])
    node.start(guest.id)
    wait_for_agent(node, guest.id)
    assert read_sectors(node, guest, "b") == 64 * MiB // 512
    assert read_sectors(node, guest, "c") == 16 * MiB // 512
    for letter, disk in (("c", disks[2]), ("b", disks[0])):
        node.detach_disk(guest.id, POOL, disk.name)
        assert read_sectors(node, guest, letter) is None
    assert {disk.name for disk in disks} <= disk_sizes(node).keys()


def test_disk_detached_while_machine_is_off_stays_detached(node, new_machine, new_disk):
    """A machine does not start without one of its disks, so one that starts no longer has this one."""
    machine, disk = new_machine(), new_disk()
    node.attach_disk(machine.id, disk)
    node.detach_disk(machine.id, POOL, disk.name)
    node.delete_disk(POOL, disk.name)
    node.start(machine.id)
    assert get_agreed_power(node, machine.id) == Power.on


def test_missing_disk_or_machine_cannot_be_attached(node, new_machine):
    machine = new_machine()
    unknown_id, [disk] = "00000000-0000-4000-8000-000000000000", machine.disks
    for machine_id, name in ((machine.id, "never-made"), (unknown_id, disk.name)):
        with pytest.raises(NotOnNode):
            node.attach_disk(machine_id, Disk(POOL, name, GiB))
        with pytest.raises(NotOnNode):
            node.detach_disk(machine_id, POOL, name)
    assert get_agreed_power(node, machine.id) == Power.off
