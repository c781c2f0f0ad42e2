"""What every driver promises about disks that come and go."""

import pytest

from tests.nodes.test_contract import (  # noqa: F401  (fixtures)
    POOL,
    MiB,
    agent_answers,
    assert_same_power,
    blank,
    booted,
    disk_sizes,
    guest,
    lab,
    libvirt_lab,
    new_disk,
    new_machine,
    node,
    simulated_lab,
    wait_until,
)
from worker.nodes.base import Disk, GiB, NotOnNode, Power


def sectors(node, machine, letter):
    done = node.agent_run(machine.id, ["cat", f"/sys/class/block/vd{letter}/size"])
    return int(done.output) if done.exit_code == 0 else None


def test_a_running_guest_gets_disks_and_lets_them_go(lab, node, guest, new_disk):
    disks = new_disk(), new_disk(32 * MiB)
    for _ in range(2):
        node.attach_disk(guest.id, disks[0])
    wait_until(lambda: sectors(node, guest, "b") == 64 * MiB // 512)
    node.attach_disk(guest.id, disks[1])
    wait_until(lambda: sectors(node, guest, "c") == 32 * MiB // 512)
    for _ in range(2):
        lab.reach().detach_disk(guest.id, POOL, disks[1].name)
        assert sectors(node, guest, "c") is None
    node.power_off(guest.id)
    node.start(guest.id)
    wait_until(lambda: agent_answers(node, guest.id))
    assert sectors(node, guest, "b") == 64 * MiB // 512
    node.detach_disk(guest.id, POOL, disks[0].name)
    assert sectors(node, guest, "b") is None
    assert {disk.name for disk in disks} <= disk_sizes(node).keys()


def test_a_machine_that_is_off_has_them_at_its_next_start(node, guest, new_disk):
    disk = new_disk()
    node.power_off(guest.id)
    node.attach_disk(guest.id, disk)
    node.start(guest.id)
    wait_until(lambda: agent_answers(node, guest.id))
    assert sectors(node, guest, "b") == 64 * MiB // 512
    node.power_off(guest.id)
    node.detach_disk(guest.id, POOL, disk.name)
    node.start(guest.id)
    wait_until(lambda: agent_answers(node, guest.id))
    assert sectors(node, guest, "b") is None


def test_what_is_not_there_cannot_be_attached(node, new_machine):
    machine = new_machine()
    nobody, [disk] = "00000000-0000-4000-8000-000000000000", machine.disks
    for machine_id, name in ((machine.id, "never-made"), (nobody, disk.name)):
        with pytest.raises(NotOnNode):
            node.attach_disk(machine_id, Disk(POOL, name, GiB))
        with pytest.raises(NotOnNode):
            node.detach_disk(machine_id, POOL, name)
    assert assert_same_power(node, machine.id) == Power.off
