"""The filters of micro VMs frame by frame, at a port where a guest would be."""

import contextlib
import uuid

import libvirt
import pytest
from lxml import etree
from lxml.builder import E

from panel.services.microvms.egress import compute_egress, compute_refused
from tests.nodes.filter_port import DROPPED, OTHER, OWN, OWN4
from tests.nodes.frames import TCP, UDP, arp, ethernet, icmpv6, ipv4, ipv6, udp
from worker.nodes.base import SANDBOX_NETWORK_NAME, Egress, Nic, SandboxNetwork
from worker.nodes.libvirt import firewall, sandbox_network

pytestmark = pytest.mark.guest

PUBLIC, OTHER_PUBLIC, NODE, SUBNET = "8.8.8.8", "9.9.9.9", "31.0.0.7", "33.0.0.0/24"
NETWORK = SandboxNetwork("100.96.0.0/16", compute_refused(True, [SUBNET], [NODE]))
REFUSED = (
    *("10.0.0.1", "100.96.0.1", "100.96.0.3", "127.0.0.1", "169.254.169.254", "172.16.0.1", "192.168.0.1"),
    *("224.0.0.1", "255.255.255.255", NODE, "33.0.0.9"),
)
FRAMES = {address: ipv4(OWN, OWN4, udp(1000), address) for address in (PUBLIC, OTHER_PUBLIC, *REFUSED)}
NEVER = DROPPED | {
    "mail": ipv4(OWN, OWN4, udp(1000, 25) + bytes(12), PUBLIC, TCP),
    "another's address to an allowed network": ipv4(OWN, "10.0.0.99", udp(1000), PUBLIC),
    "another's mac to an allowed network": ipv4(OTHER, OWN4, udp(1000), PUBLIC),
    "ipv6 from no address": ipv6(OWN, "::", UDP, udp(1000)),
    "neighbor solicitation": ipv6(OWN, "fe80::5054:ff:fe0a:b01", 58, icmpv6(135)),
    "tagged": ethernet(OWN, 0x8100, b"\0\1" + ipv4(OWN, OWN4, udp(1000), PUBLIC)[12:]),
}


@pytest.fixture
def sandbox_port(port):
    """Return a function that filters the port as the NIC of a micro VM."""

    @contextlib.contextmanager
    def apply(egress, network=NETWORK):
        nic = Nic(OWN, SANDBOX_NETWORK_NAME, (OWN4,), mail=False, egress=egress)
        sandbox_network.define_refusals(port.connection, network)
        firewall.define_filters(port.connection, [nic])
        owner = E.owner(E.name("test"), E.uuid(str(uuid.uuid4())))
        reference = E.filterref(filter=firewall.make_filter_name(OWN))
        binding = E.filterbinding(owner, E.portdev(name=port.name), E.mac(address=OWN), reference)
        bound = port.connection.nwfilterBindingCreateXML(etree.tostring(binding, encoding="unicode"))
        try:
            yield port
        finally:
            bound.delete()
            firewall.delete_filters(port.connection, [OWN])

    return apply


def choose(*rules):
    egress = compute_egress(*rules)
    return Egress(egress.allowed, egress.denied)


@pytest.mark.parametrize(
    ("egress", "expected"),
    [
        (choose(True, [], []), {PUBLIC, OTHER_PUBLIC}),
        (choose(False, [], []), set()),
        (choose(False, [PUBLIC, "10.0.0.0/8", NODE, "100.96.0.0/16"], []), {PUBLIC}),
        (choose(True, [], ["8.0.0.0/8"]), {OTHER_PUBLIC}),
        (choose(True, ["0.0.0.0/0"], ["0.0.0.0/0"]), {PUBLIC, OTHER_PUBLIC}),
    ],
)
def test_frames_to_allowed_networks_pass(sandbox_port, egress, expected):
    with sandbox_port(egress) as filtered:
        assert filtered.send_frames(FRAMES) == expected
        assert filtered.send_frames(NEVER) == set()


def test_refusals_change_while_the_guest_runs(sandbox_port):
    with sandbox_port(choose(True, [], [])) as filtered:
        for refused, expected in (([PUBLIC], {OTHER_PUBLIC}), (["0.0.0.0/0"], set()), ([], {PUBLIC, OTHER_PUBLIC})):
            network = SandboxNetwork(NETWORK.cidr, (*NETWORK.refused, *refused))
            sandbox_network.define_refusals(filtered.connection, network)
            assert filtered.send_frames(FRAMES) == expected


def test_unchanged_refusals_are_not_defined_again(sandbox_port, monkeypatch):
    with sandbox_port(choose(True, [], [])) as filtered:
        definitions = []
        monkeypatch.setattr(libvirt.virConnect, "nwfilterDefineXML", lambda _connection, xml: definitions.append(xml))
        sandbox_network.define_refusals(filtered.connection, NETWORK)
        assert definitions == []
        changed = SandboxNetwork(NETWORK.cidr, (*NETWORK.refused, PUBLIC))
        sandbox_network.define_refusals(filtered.connection, changed)
        assert definitions == [sandbox_network.build_refusals(changed)]


def test_guest_resolves_the_node(sandbox_port):
    with sandbox_port(choose(False, [], [])) as filtered:
        assert filtered.send_frames({"arp": arp(OWN, OWN4)}) == {"arp"}
