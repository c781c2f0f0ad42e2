"""What every driver promises about overlays, inside a guest and on the node."""

import pytest

from tests.nodes.test_contract import (  # noqa: F401  (fixtures)
    POOL,
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
from worker.nodes.base import Disk, GiB, NotOnNode, Power, Refused, overlay_name


def write(node, machine, path, text):
    assert node.agent_run(machine.id, ["tee", path], stdin=text).exit_code == 0
    assert node.agent_run(machine.id, ["sync"]).exit_code == 0


def read(node, machine, path):
    done = node.agent_run(machine.id, ["cat", path])
    return done.output if done.exit_code == 0 else None


def test_a_dropped_overlay_takes_its_changes_with_it(lab, node, guest):
    """FRG-18: discarding"""
    [disk] = guest.disks
    write(node, guest, "/root/kept", "before")
    for _ in range(2):
        node.create_overlays(guest.id, [disk])
        assert overlay_name(disk.name) in disk_sizes(node)
    write(node, guest, "/root/kept", "after")
    write(node, guest, "/root/new", "after")
    with pytest.raises(Refused):
        node.discard_overlay(guest.id, disk.pool, disk.name)
    node.power_off(guest.id)
    node.define(guest)
    node.start(guest.id)
    wait_until(lambda: agent_answers(node, guest.id))
    assert read(node, guest, "/root/new") == "after"
    node.power_off(guest.id)
    for _ in range(2):
        lab.reach().discard_overlay(guest.id, disk.pool, disk.name)
        assert overlay_name(disk.name) not in disk_sizes(node)
    node.start(guest.id)
    wait_until(lambda: agent_answers(node, guest.id))
    assert read(node, guest, "/root/kept") == "before"
    assert read(node, guest, "/root/new") is None


def test_a_merged_overlay_leaves_its_changes_in_the_disk(lab, node, guest):
    """FRG-18: committing; on a running guest, and on a machine that went off meanwhile."""
    [disk] = guest.disks
    for text, off in (("first", False), ("second", True)):
        node.create_overlays(guest.id, [disk])
        write(node, guest, "/root/merged", text)
        if off:
            node.power_off(guest.id)
        lab.reach().commit_overlay(guest.id, disk.pool, disk.name, lambda done, total: None)
        node.commit_overlay(guest.id, disk.pool, disk.name)
        assert overlay_name(disk.name) not in disk_sizes(node)
        assert assert_same_power(node, guest.id) == (Power.off if off else Power.on)
    node.define(guest)
    node.start(guest.id)
    wait_until(lambda: agent_answers(node, guest.id))
    assert read(node, guest, "/root/merged") == "second"


def test_a_guest_is_thawed_whatever_it_was(node, guest, new_machine):
    node.thaw_guest(guest.id)
    write(node, guest, "/root/thawed", "yes")
    node.thaw_guest(new_machine().id)
    with pytest.raises(NotOnNode):
        node.thaw_guest("01a20000-0000-7000-8000-000000000000")


def test_overlays_of_several_disks_are_laid_together_or_not_at_all(node, new_machine, new_disk):
    disks = new_disk(), new_disk()
    machine = new_machine(disks=disks)
    with pytest.raises(Refused):
        node.create_overlays(machine.id, disks)
    node.start(machine.id)
    with pytest.raises(NotOnNode):
        node.create_overlays(machine.id, [disks[0], Disk(POOL, "never-made", GiB)])
    assert not [name for name in disk_sizes(node) if name in {overlay_name(disk.name) for disk in disks}]
    node.create_overlays(machine.id, disks[1:])
    node.create_overlays(machine.id, disks)
    for disk in disks:
        assert overlay_name(disk.name) in disk_sizes(node)
        node.commit_overlay(machine.id, POOL, disk.name)
    assert assert_same_power(node, machine.id) == Power.on
