"""What every driver promises about snapshots of machines."""

import json
import subprocess

import pytest

from tests.nodes.test_contract import (  # noqa: F401  (fixtures)
    agent_answers,
    assert_same_power,
    blank,
    booted,
    guest,
    lab,
    libvirt_lab,
    new_disk,
    new_machine,
    node,
    simulated_lab,
    wait_until,
)
from tests.nodes.test_overlays import read, write
from worker.nodes.base import NotOnNode, Power


def power_on_again(node, machine):
    """The machine is powered on with its own definition."""
    node.define(machine)
    node.start(machine.id)
    wait_until(lambda: agent_answers(node, machine.id))


def test_disks_of_a_running_machine(lab, node, guest):
    write(node, guest, "/root/file", "before")
    for _ in range(2):
        node.create_snapshot(guest.id, "running")
    assert assert_same_power(node, guest.id) == Power.on
    write(node, guest, "/root/file", "after")
    lab.reach().revert_snapshot(guest.id, "running")
    assert assert_same_power(node, guest.id) == Power.off
    power_on_again(node, guest)
    assert read(node, guest, "/root/file") == "before"
    for _ in range(2):
        node.delete_snapshot(guest.id, "running")
    with pytest.raises(NotOnNode):
        node.revert_snapshot(guest.id, "running")
    assert read(node, guest, "/root/file") == "before"


def test_with_the_memory_the_guest_goes_on(node, guest):
    write(node, guest, "/root/file", "before")
    boot = node.agent_run(guest.id, ["cat", "/proc/sys/kernel/random/boot_id"]).output
    node.create_snapshot(guest.id, "memory", memory=True)
    write(node, guest, "/root/file", "after")
    node.power_off(guest.id)
    for _ in range(2):
        node.revert_snapshot(guest.id, "memory", memory=True)
    assert assert_same_power(node, guest.id) == Power.on
    wait_until(lambda: agent_answers(node, guest.id))
    assert read(node, guest, "/root/file") == "before"
    if type(node).__name__ == "LibvirtNode":
        assert node.agent_run(guest.id, ["cat", "/proc/sys/kernel/random/boot_id"]).output == boot
    node.delete_snapshot(guest.id, "memory")


def test_memory_is_kept_only_where_it_was_asked_for(lab, node, guest):
    """Acceptance E11: a snapshot without the memory has none in the disk either."""
    if type(node).__name__ != "LibvirtNode":
        pytest.skip("a simulated disk has no memory in it")
    node.create_snapshot(guest.id, "disks")
    node.create_snapshot(guest.id, "memory", memory=True)
    command = ["qemu-img", "info", "--force-share", "--output=json", f"{lab.pool_path}/{guest.disks[0].name}"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["snapshots"]
    kept = {each["name"]: each["vm-state-size"] > 0 for each in found}
    assert (kept["disks"], kept["memory"]) == (False, True)
    for name in ("disks", "memory"):
        node.delete_snapshot(guest.id, name)


def test_disks_of_a_machine_that_is_off(node, guest):
    write(node, guest, "/root/file", "before")
    node.power_off(guest.id)
    node.create_snapshot(guest.id, "off", memory=True)
    power_on_again(node, guest)
    write(node, guest, "/root/file", "after")
    node.revert_snapshot(guest.id, "off", memory=True)
    assert assert_same_power(node, guest.id) == Power.off
    power_on_again(node, guest)
    assert read(node, guest, "/root/file") == "before"
    node.delete_snapshot(guest.id, "off")


def test_a_machine_of_several_disks_and_one_that_is_deleted(node, new_machine, new_disk):
    machine = new_machine(disks=(new_disk(), new_disk()))
    node.create_snapshot(machine.id, "two")
    node.start(machine.id)
    node.create_snapshot(machine.id, "three", memory=True)
    node.revert_snapshot(machine.id, "two")
    assert assert_same_power(node, machine.id) == Power.off
    node.delete(machine.id)
    node.delete_snapshot(machine.id, "two")
