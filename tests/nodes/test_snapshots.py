"""What every driver promises about snapshots of machines."""

import json

import pytest

from tests.nodes.driver_lab import (
    get_agreed_power,
    read_boot_id,
    read_file,
    run_program,
    wait_for_agent,
    write_file,
)
from worker.nodes.base import NotOnNode, Power


def test_snapshots_taken_while_running_and_while_off_restore_disks(lab, node, guest):
    write_file(node, guest, "/root/file", "before")
    for _ in range(2):
        node.create_snapshot(guest.id, "running")
    assert get_agreed_power(node, guest.id) == Power.on
    write_file(node, guest, "/root/file", "after")
    node.power_off(guest.id)
    node.create_snapshot(guest.id, "off", memory=True)
    node.define(guest)
    for name, memory, text in (("running", False, "before"), ("off", True, "after")):
        node.start(guest.id)
        lab.open_node().revert_snapshot(guest.id, name, memory=memory)
        assert get_agreed_power(node, guest.id) == Power.off
        assert lab.guest_state.read_file("/root/file") == text
    for name in ("running", "running", "off"):
        node.delete_snapshot(guest.id, name)
    with pytest.raises(NotOnNode):
        node.revert_snapshot(guest.id, "running")
    assert lab.guest_state.read_file("/root/file") == "after"


def test_snapshot_with_memory_resumes_guest(node, guest):
    write_file(node, guest, "/root/file", "before")
    boot_id = read_boot_id(node, guest.id)
    node.create_snapshot(guest.id, "memory", memory=True)
    write_file(node, guest, "/root/file", "after")
    node.power_off(guest.id)
    for _ in range(2):
        node.revert_snapshot(guest.id, "memory", memory=True)
    assert get_agreed_power(node, guest.id) == Power.on
    wait_for_agent(node, guest.id)
    assert read_file(node, guest, "/root/file") == "before"
    if type(node).__name__ == "LibvirtNode":
        assert read_boot_id(node, guest.id) == boot_id
    node.delete_snapshot(guest.id, "memory")


def test_snapshot_stores_memory_only_when_requested(lab, node, guest):
    """A snapshot without the memory has none in the disk either."""
    if type(node).__name__ != "LibvirtNode":
        pytest.skip("a simulated disk has no memory in it")
    node.create_snapshot(guest.id, "disks")
    node.create_snapshot(guest.id, "memory", memory=True)
    command = ["qemu-img", "info", "--force-share", "--output=json", f"{lab.pool_path}/{guest.disks[0].name}"]
    snapshots = json.loads(run_program(*command))["snapshots"]
    has_memory = {snapshot["name"]: snapshot["vm-state-size"] > 0 for snapshot in snapshots}
    assert (has_memory["disks"], has_memory["memory"]) == (False, True)
    for name in ("disks", "memory"):
        node.delete_snapshot(guest.id, name)


def test_snapshot_covers_all_disks_and_is_deleted_with_machine(node, new_machine, new_disk):
    machine = new_machine(disks=(new_disk(), new_disk()))
    node.create_snapshot(machine.id, "two")
    node.start(machine.id)
    node.create_snapshot(machine.id, "three", memory=True)
    node.revert_snapshot(machine.id, "two")
    assert get_agreed_power(node, machine.id) == Power.off
    node.delete(machine.id)
    node.delete_snapshot(machine.id, "two")
