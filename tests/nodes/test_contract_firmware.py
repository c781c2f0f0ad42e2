"""What every driver promises about a machine's firmware."""

from dataclasses import replace

import pytest

from tests.nodes.driver_lab import POOL, find_status
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


def test_state_of_firmware_and_tpm_moves_to_another_machine(node, new_machine):
    """As a restore needs it: also to a machine that has never been started."""
    capabilities = node.capabilities()
    if not (capabilities.tpm and capabilities.secure_boot):
        pytest.fail("The node has neither a TPM nor secure boot to test.")
    settings = {"tpm": True, "secure_boot": True}
    first, second = replace(new_machine(), **settings), replace(new_machine(), **settings)
    for machine in (first, second):
        node.define(machine)
        assert node.read_firmware_state(machine.id) == {}
    node.start(first.id)
    assert node.read_firmware_state(first.id).keys() == {"nvram", "tpm"}
    node.power_off(first.id)
    state = node.read_firmware_state(first.id)
    assert all(state.values())
    node.write_firmware_state(second.id, state)
    node.start(second.id)
    assert find_status(node, second.id).power is Power.on
    with pytest.raises(Refused):
        node.write_firmware_state(second.id, state)
    node.power_off(second.id)
    node.write_firmware_state(second.id, state)
    assert node.read_firmware_state(second.id) == state
    node.start(second.id)
    assert POOL in {pool.name for pool in node.capabilities().pools}
    assert not [pool.name for pool in node.capabilities().pools if pool.name != POOL and "firmware" in pool.name]
    node.power_off(second.id)
    node.define(replace(second, **dict.fromkeys(settings, False)))
    assert node.read_firmware_state(second.id) == {}
