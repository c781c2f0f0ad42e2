"""What every driver promises about machines that somebody else defined (`worker/nodes/base.py`)."""

import uuid
from dataclasses import replace

import pytest

from tests.nodes.driver_lab import build_nic
from worker.nodes.base import Disk, GiB, NotOnNode, Power, Refused


@pytest.fixture
def unmanaged_machine(lab, new_disk, new_machine):
    """A machine, and the same as the panel would define it."""
    nic = build_nic(lab)
    machine = new_machine(disks=(new_disk(), new_disk(2 * GiB)), nics=(nic,), memory_mb=96)
    imported = replace(machine, name=f"h{uuid.uuid4().int % 10**8:08}", memory_mb=128, vnc_password="letmein")
    return machine, replace(imported, nics=(replace(nic, addresses=("10.96.0.7",)),))


def test_unmanaged_machine_is_described(node, unmanaged_machine):
    machine, _ = unmanaged_machine
    description = node.describe_machine(machine.id)
    assert (description.id, description.name, description.power) == (machine.id, machine.name, Power.off)
    assert (description.cpu_cores, description.memory_mb, description.tpm, description.secure_boot) == (
        1,
        96,
        False,
        False,
    )
    assert [(disk.device, disk.pool, disk.name, disk.size, disk.fault) for disk in description.disks] == [
        ("vda", machine.disks[0].pool, machine.disks[0].name, machine.disks[0].size, None),
        ("vdb", machine.disks[1].pool, machine.disks[1].name, machine.disks[1].size, None),
    ]
    assert [(nic.mac, nic.network) for nic in description.nics] == [(machine.nics[0].mac, machine.nics[0].network)]
    assert description.faults == ()
    node.start(machine.id)
    assert node.describe_machine(machine.id) == replace(description, power=Power.on)


def test_imported_machine_matches_panel_definition(node, unmanaged_machine):
    machine, imported = unmanaged_machine
    before = node.describe_machine(machine.id)
    node.import_machine(imported)
    description = node.describe_machine(machine.id)
    assert (description.name, description.memory_mb, description.disks) == (imported.name, 128, before.disks)
    node.define(imported)  # from now on it is the panel's
    node.revert_import(machine.id)
    assert node.describe_machine(machine.id) == description
    node.start(machine.id)
    assert node.power(machine.id) is Power.on


def test_imported_machine_can_be_reverted_to_unmanaged(node, unmanaged_machine):
    """Also when either is repeated."""
    machine, imported = unmanaged_machine
    before = node.describe_machine(machine.id)
    node.revert_import(machine.id)
    assert node.describe_machine(machine.id) == before
    for times in (1, 2):
        for _ in range(times):
            node.import_machine(imported)
        for _ in range(times):
            node.revert_import(machine.id)
        assert node.describe_machine(machine.id) == before


def test_running_machine_is_not_imported(node, unmanaged_machine):
    machine, imported = unmanaged_machine
    node.start(machine.id)
    before = node.describe_machine(machine.id)
    with pytest.raises(Refused):
        node.import_machine(imported)
    assert node.describe_machine(machine.id) == before


def test_import_with_missing_disk_changes_nothing(node, unmanaged_machine):
    machine, imported = unmanaged_machine
    before = node.describe_machine(machine.id)
    with pytest.raises(NotOnNode):
        node.import_machine(replace(imported, disks=(*imported.disks, Disk(machine.disks[0].pool, "nothing", GiB))))
    assert node.describe_machine(machine.id) == before


def test_unknown_machine_cannot_be_described_or_imported(node, unmanaged_machine):
    _, imported = unmanaged_machine
    unknown = replace(imported, id=str(uuid.uuid4()))
    for call in (
        lambda: node.describe_machine(unknown.id),
        lambda: node.import_machine(unknown),
        lambda: node.revert_import(unknown.id),
    ):
        with pytest.raises(NotOnNode):
            call()
    assert unknown.id not in {status.id for status in node.machines()}
