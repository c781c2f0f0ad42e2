"""What every driver promises about the network of micro VMs. No guest boots here."""

import pytest

from tests.nodes.driver_lab import numbers
from worker.nodes.base import SANDBOX_NETWORK_NAME, Egress, Nic, Power, SandboxNetwork

NETWORK = SandboxNetwork("100.96.0.0/24", ("10.0.0.0/8", "31.0.0.7/32"))


def build_sandbox_nic(egress):
    mac = f"52:54:00:c1:00:{next(numbers):02x}"
    return Nic(mac, SANDBOX_NETWORK_NAME, ("100.96.0.2",), mail=False, egress=egress)


@pytest.mark.parametrize(
    "egress", [Egress(), Egress(denied=("0.0.0.0/0",)), Egress(("8.8.8.8/32", "0.0.0.0/0"), ("8.8.0.0/16",))]
)
def test_machine_starts_in_the_network(node, new_machine, egress):
    node.ensure_sandbox_network(NETWORK)
    nic = build_sandbox_nic(egress)
    machine = new_machine(nics=(nic,))
    node.start(machine.id)
    assert node.power(machine.id) is Power.on
    for changed in (Egress(denied=("0.0.0.0/0",)), Egress(("9.9.9.9/32",)), Egress()):
        node.update_nics(machine.id, (build_changed(nic, changed),))
    node.ensure_sandbox_network(NETWORK)
    node.ensure_sandbox_network(SandboxNetwork(NETWORK.cidr, ("0.0.0.0/0",)))
    assert node.power(machine.id) is Power.on
    node.power_off(machine.id)
    node.define(machine)
    node.start(machine.id)


def build_changed(nic, egress):
    return Nic(nic.mac, nic.network, nic.addresses, mail=False, egress=egress)


def test_network_with_other_addresses_replaces_the_earlier(lab, node, new_machine):
    for cidr in ("100.96.0.0/24", "10.50.0.0/16"):
        node.ensure_sandbox_network(SandboxNetwork(cidr))
        assert lab.read_sandbox_cidr(node) == cidr
    machine = new_machine(nics=(build_sandbox_nic(Egress()),))
    node.start(machine.id)
    assert node.power(machine.id) is Power.on
    node.power_off(machine.id)
    node.ensure_sandbox_network(NETWORK)
    assert lab.read_sandbox_cidr(node) == NETWORK.cidr
