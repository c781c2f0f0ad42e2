"""Saved states on libvirt: a start that was cut off."""

from contextlib import closing

import libvirt
import pytest

from worker.nodes.base import Power

pytestmark = pytest.mark.guest


@pytest.fixture(scope="session")
def lab(libvirt_lab):
    return libvirt_lab


def test_start_from_saved_state_that_was_cut_off_is_finished(node, new_machine):
    machine = new_machine()
    node.start(machine.id)
    node.save(machine.id)
    with closing(libvirt.open(node.spec.uri)) as connection:
        connection.lookupByUUIDString(machine.id).createWithFlags(libvirt.VIR_DOMAIN_START_PAUSED)
    assert node.power(machine.id) == Power.paused
    for _ in range(2):
        node.start(machine.id)
        assert node.power(machine.id) == Power.on


def test_start_leaves_suspended_machine_paused(node, new_machine):
    machine = new_machine()
    node.start(machine.id)
    node.save(machine.id)
    node.start(machine.id)
    node.suspend(machine.id)
    node.start(machine.id)
    assert node.power(machine.id) == Power.paused
