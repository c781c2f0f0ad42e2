"""The variables of a firmware that goes on running at the other node."""

import os

import pytest

from tests.nodes.test_migration_firmware import firmware_state, machine, pair, secure_boot, settled_state, switch_off  # noqa: F401
from worker.nodes.base import Power

pytestmark = pytest.mark.guest

MARK = b"written by a test"


def test_a_machine_that_runs_takes_the_variables_of_its_firmware_with_it(pair, machine):
    """The firmware goes on writing meanwhile: what it has is known by a mark that it does not touch."""
    here, there = pair
    switch_off(here, machine)
    with here.variables(machine).open("r+b") as file:
        file.seek(-len(MARK), os.SEEK_END)
        file.write(MARK)
    here.node.start(machine.id)
    tpm, variables = settled_state(here, machine)
    assert variables.endswith(MARK)
    here.node.migrate(machine, there.node)
    assert there.node.power(machine.id) is Power.on
    moved_tpm, moved = settled_state(there, machine)
    assert (moved_tpm == tpm, moved.endswith(MARK)) == (True, True)
    assert here.left(machine) == []
    there.node.power_off(machine.id)
    there.node.start(machine.id)
