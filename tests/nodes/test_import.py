"""What every driver promises of machines that somebody else made (`worker/nodes/base.py`)."""

import uuid
from dataclasses import replace

import pytest

from tests.nodes.test_contract import (  # noqa: F401  (fixtures)
    GiB,
    build_nic,
    lab,
    libvirt_lab,
    new_disk,
    new_machine,
    node,
    simulated_lab,
)
from worker.nodes.base import Disk, NotOnNode, Power, Refused


@pytest.fixture
def unmanaged_machine(lab, new_disk, new_machine):
    """A machine, and how the panel would have it."""
    nic = build_nic(lab)
    made = new_machine(disks=(new_disk(), new_disk(2 * GiB)), nics=(nic,), memory_mb=96)
    ours = replace(made, name=f"h{uuid.uuid4().int % 10**8:08}", memory_mb=128, vnc_password="letmein")
    return made, replace(ours, nics=(replace(nic, addresses=("10.96.0.7",)),))


def test_a_machine_is_described(node, unmanaged_machine):
    made, _ = unmanaged_machine
    found = node.describe_machine(made.id)
    assert (found.id, found.name, found.power) == (made.id, made.name, Power.off)
    assert (found.cpu_cores, found.memory_mb, found.tpm, found.secure_boot) == (1, 96, False, False)
    assert [(disk.device, disk.pool, disk.name, disk.size, disk.fault) for disk in found.disks] == [
        ("vda", made.disks[0].pool, made.disks[0].name, made.disks[0].size, None),
        ("vdb", made.disks[1].pool, made.disks[1].name, made.disks[1].size, None),
    ]
    assert [(nic.mac, nic.network) for nic in found.nics] == [(made.nics[0].mac, made.nics[0].network)]
    assert found.faults == ()
    node.start(made.id)
    assert node.describe_machine(made.id) == replace(found, power=Power.on)


def test_an_adopted_machine_is_as_the_panel_has_it(node, unmanaged_machine):
    made, ours = unmanaged_machine
    before = node.describe_machine(made.id)
    node.import_machine(ours)
    found = node.describe_machine(made.id)
    assert (found.name, found.memory_mb, found.disks) == (ours.name, 128, before.disks)
    node.define(ours)  # from now on it is the panel's
    node.revert_import(made.id)
    assert node.describe_machine(made.id) == found
    node.start(made.id)
    assert node.power(made.id) is Power.on


def test_an_imported_machine_can_be_reverted_to_unmanaged(node, unmanaged_machine):
    """However often the one or the other was asked for."""
    made, ours = unmanaged_machine
    before = node.describe_machine(made.id)
    node.revert_import(made.id)
    assert node.describe_machine(made.id) == before
    for times in (1, 2):
        for _ in range(times):
            node.import_machine(ours)
        for _ in range(times):
            node.revert_import(made.id)
        assert node.describe_machine(made.id) == before


def test_a_machine_that_is_on_is_not_adopted(node, unmanaged_machine):
    made, ours = unmanaged_machine
    node.start(made.id)
    before = node.describe_machine(made.id)
    with pytest.raises(Refused):
        node.import_machine(ours)
    assert node.describe_machine(made.id) == before


def test_without_a_disk_it_stays_what_it_was(node, unmanaged_machine):
    made, ours = unmanaged_machine
    before = node.describe_machine(made.id)
    with pytest.raises(NotOnNode):
        node.import_machine(replace(ours, disks=(*ours.disks, Disk(made.disks[0].pool, "nothing", GiB))))
    assert node.describe_machine(made.id) == before


def test_what_is_not_there_is_missing(node, unmanaged_machine):
    _, ours = unmanaged_machine
    stranger = replace(ours, id=str(uuid.uuid4()))
    for call in (
        lambda: node.describe_machine(stranger.id),
        lambda: node.import_machine(stranger),
        lambda: node.revert_import(stranger.id),
    ):
        with pytest.raises(NotOnNode):
            call()
    assert stranger.id not in {machine.id for machine in node.machines()}
