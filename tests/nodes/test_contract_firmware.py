"""What every driver promises about a machine's firmware."""

from dataclasses import replace

import pytest

from tests.nodes.driver_lab import find_status
from worker.nodes.base import Power, Refused


def test_secure_boot_is_provided_or_refused(node, new_machine):
    """A node with secure boot starts the machine with it, and with a BIOS again; another node keeps the previous
    definition."""
    machine = new_machine()
    node.define(machine)
    with_secure_boot = replace(machine, secure_boot=True)
    if not node.capabilities().secure_boot:
        with pytest.raises(Refused):
            node.define(with_secure_boot)
    for definition in (with_secure_boot, machine) if node.capabilities().secure_boot else (machine,):
        node.define(definition)
        node.start(machine.id)
        assert find_status(node, machine.id).power is Power.on
        node.power_off(machine.id)


def test_machine_with_secure_boot_refuses_snapshots(node, new_machine):
    machine = new_machine()
    node.define(replace(machine, secure_boot=True))
    with pytest.raises(Refused):
        node.create_snapshot(machine.id, "first")
