"""What every driver promises of a machine's TPM and firmware."""

from dataclasses import replace

import pytest

from tests.nodes.test_contract import (  # noqa: F401  (fixtures)
    lab,
    libvirt_lab,
    machine_status,
    new_disk,
    new_machine,
    node,
    simulated_lab,
)
from worker.nodes.base import Power, Refused


def test_a_node_gives_secure_boot_or_refuses(node, new_machine):
    """One that says it can starts the machine with it, and with a BIOS again; one that cannot keeps the earlier
    definition."""
    machine = new_machine()
    node.define(machine)
    wanted = replace(machine, secure_boot=True)
    if not node.capabilities().secure_boot:
        with pytest.raises(Refused):
            node.define(wanted)
    for definition in (wanted, machine) if node.capabilities().secure_boot else (machine,):
        node.define(definition)
        node.start(machine.id)
        assert machine_status(node, machine.id).power is Power.on
        node.power_off(machine.id)


def test_a_machine_with_secure_boot_takes_no_snapshots(node, new_machine):
    machine = new_machine()
    node.define(replace(machine, secure_boot=True))
    with pytest.raises(Refused):
        node.create_snapshot(machine.id, "first")
