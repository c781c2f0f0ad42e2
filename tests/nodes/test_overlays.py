"""What every driver promises about overlays, inside a guest and on the node."""

import pytest

from tests.nodes.driver_lab import (
    POOL,
    disk_sizes,
    get_agreed_power,
    read_file,
    wait_for_agent,
    write_file,
)
from worker.nodes.base import Disk, GiB, NotOnNode, Power, Refused, make_overlay_name


def test_discarded_overlay_loses_its_changes(lab, node, guest):
    """FRG-18: discarding"""
    [disk] = guest.disks
    write_file(node, guest, "/root/kept", "before")
    for _ in range(2):
        node.create_overlays(guest.id, [disk])
        assert make_overlay_name(disk.name) in disk_sizes(node)
    write_file(node, guest, "/root/kept", "after")
    write_file(node, guest, "/root/new", "after")
    with pytest.raises(Refused):
        node.discard_overlay(guest.id, disk.pool, disk.name)
    node.power_off(guest.id)
    node.define(guest)
    node.start(guest.id)
    wait_for_agent(node, guest.id)
    assert read_file(node, guest, "/root/new") == "after"
    node.power_off(guest.id)
    for _ in range(2):
        lab.open_node().discard_overlay(guest.id, disk.pool, disk.name)
        assert make_overlay_name(disk.name) not in disk_sizes(node)
    assert lab.guest_state.read_file("/root/kept") == "before"
    assert lab.guest_state.read_file("/root/new") is None
    node.start(guest.id)
    assert get_agreed_power(node, guest.id) == Power.on
    node.power_off(guest.id)


def test_committed_overlay_keeps_its_changes(lab, node, guest):
    """FRG-18: committing; on a running guest, and on a machine that went off meanwhile."""
    [disk] = guest.disks
    for text, off in (("first", False), ("second", True)):
        node.create_overlays(guest.id, [disk])
        write_file(node, guest, "/root/merged", text)
        if off:
            node.power_off(guest.id)
        lab.open_node().commit_overlay(guest.id, disk.pool, disk.name, lambda done, total: None)
        node.commit_overlay(guest.id, disk.pool, disk.name)
        assert make_overlay_name(disk.name) not in disk_sizes(node)
        assert get_agreed_power(node, guest.id) == (Power.off if off else Power.on)
    assert lab.guest_state.read_file("/root/merged") == "second"
    node.define(guest)
    node.start(guest.id)
    assert get_agreed_power(node, guest.id) == Power.on
    node.power_off(guest.id)


def test_thaw_guest_can_be_called_in_any_state(node, guest, new_machine):
    node.thaw_guest(guest.id)
    write_file(node, guest, "/root/thawed", "yes")
    node.thaw_guest(new_machine().id)
    with pytest.raises(NotOnNode):
        node.thaw_guest("01a20000-0000-7000-8000-000000000000")


def test_overlays_of_several_disks_are_all_created_or_none(node, new_machine, new_disk):
    disks = new_disk(), new_disk()
    machine = new_machine(disks=disks)
    with pytest.raises(Refused):
        node.create_overlays(machine.id, disks)
    node.start(machine.id)
    with pytest.raises(NotOnNode):
        node.create_overlays(machine.id, [disks[0], Disk(POOL, "never-made", GiB)])
    assert not [name for name in disk_sizes(node) if name in {make_overlay_name(disk.name) for disk in disks}]
    node.create_overlays(machine.id, disks[1:])
    node.create_overlays(machine.id, disks)
    for disk in disks:
        assert make_overlay_name(disk.name) in disk_sizes(node)
        node.commit_overlay(machine.id, POOL, disk.name)
    assert get_agreed_power(node, machine.id) == Power.on
