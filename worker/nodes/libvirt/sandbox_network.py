"""The network of a node's micro VMs and its filters.

Packets are filtered where they leave the guest, by destination and without connections (ebtables), so it does not
matter whether the host passes bridged packets to iptables, and a change cuts open connections too. The refusals of the
node are one filter for all NICs, which changes without touching a machine. It comes after the guard's check of the MAC
and before everything that accepts.

libvirt's network drops what begins outside. Its ports are isolated, so guests reach each other neither by the bridge,
nor by the node, whose refusals contain the network itself.
"""

import ipaddress
from collections.abc import Iterator

import libvirt
from lxml import etree
from lxml.builder import E

from panel.core.messages import message
from worker.nodes.base import SANDBOX_NETWORK_NAME, Egress, Nic, Refused, SandboxNetwork
from worker.nodes.libvirt import filters

REFUSALS_NAME = "panel-sandboxes"
REFUSALS_UUID = "7c0de7a5-93ad-4d0e-9c55-4a3b6e1f8f21"
REFUSE_PRIORITY, ALLOW_PRIORITY, DENY_PRIORITY = -890, -780, -770
"""Between the guard's check of the MAC (-900) and its list of what a guest may send (-700)."""


def ensure_network(connection: libvirt.virConnect, network: SandboxNetwork) -> None:
    """Filter first: a network never exists without its refusals."""
    define_refusals(connection, network)
    existing = find_network(connection)
    if existing is not None and read_cidr(existing) != network.cidr:
        if existing.isActive():
            existing.destroy()
        existing.undefine()
        existing = None
    if existing is None:
        existing = connection.networkDefineXML(build_network_xml(network))
        existing.setAutostart(1)
    if not existing.isActive():
        existing.create()


def define_refusals(connection: libvirt.virConnect, network: SandboxNetwork) -> None:
    """Define the refusals if they changed: libvirt then changes the rules of every NIC."""
    description = build_refusals(network)
    try:
        existing = connection.nwfilterLookupByName(REFUSALS_NAME).XMLDesc()
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_NWFILTER:
            raise
        existing = ""
    if not existing or list_matches(existing) != list_matches(description):
        connection.nwfilterDefineXML(description)


def list_matches(description: str) -> list[str]:
    """Return what the rules of a filter match, sorted. libvirt may write a prefix as a mask."""
    matches = [rule[0] for rule in etree.fromstring(description).iterfind("rule")]
    return sorted(
        str(ipaddress.ip_network(f"{match.get('dstipaddr', '0.0.0.0')}/{match.get('dstipmask', '0')}"))
        if match.tag == "ip"
        else str(match.tag)
        for match in matches
    )


def find_network(connection: libvirt.virConnect) -> libvirt.virNetwork | None:
    try:
        return connection.networkLookupByName(SANDBOX_NETWORK_NAME)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_NETWORK:
            raise
        return None


def read_cidr(network: libvirt.virNetwork) -> str:
    address = etree.fromstring(network.XMLDesc(libvirt.VIR_NETWORK_XML_INACTIVE)).find("ip")
    return str(ipaddress.ip_interface(f"{address.get('address')}/{address.get('netmask')}").network)


def build_network_xml(network: SandboxNetwork) -> str:
    """Return the network. libvirt chooses the name of its bridge."""
    addresses = ipaddress.ip_network(network.cidr)
    return to_text(
        E.network(
            E.name(SANDBOX_NETWORK_NAME),
            E.forward(mode="nat"),
            E.bridge(stp="off", delay="0"),
            E.dns(enable="no"),
            E.ip(address=str(addresses[1]), netmask=str(addresses.netmask)),
        )
    )


def build_refusals(network: SandboxNetwork) -> str:
    rules = [
        E.rule(E.mac(protocolid="ipv6"), action="drop", direction="inout", priority=str(REFUSE_PRIORITY)),
        *(
            filters.build_rule("drop", REFUSE_PRIORITY, E.ip(make_destination(refused)))
            for refused in dict.fromkeys((network.cidr, *network.refused))
        ),
    ]
    return to_text(E.filter(E.uuid(REFUSALS_UUID), *rules, name=REFUSALS_NAME, chain="root"))


def iter_nic_rules(nic: Nic, egress: Egress) -> Iterator[etree._Element]:
    """Yield what the filter of a NIC in the sandbox network has besides the guard."""
    yield E.filterref(filter=REFUSALS_NAME)
    for network in egress.allowed:
        for address in nic.addresses:
            match = {"srcipaddr": address, "srcipmask": "32"} | make_destination(network)
            yield filters.build_rule("accept", ALLOW_PRIORITY, E.ip(match))
    for network in egress.denied:
        yield filters.build_rule("drop", DENY_PRIORITY, E.ip(make_destination(network)))


def make_destination(network: str) -> dict[str, str]:
    """Return the attributes that match packets to the network."""
    destination = ipaddress.ip_network(network)
    if destination.prefixlen == 0:
        return {}
    return {"dstipaddr": str(destination.network_address), "dstipmask": str(destination.prefixlen)}


def ensure_filterable(nics: tuple[Nic, ...], has_filters: bool) -> None:
    """Raise `Refused` for a NIC of the sandbox network on a node that cannot filter."""
    if not has_filters and any(nic.egress is not None for nic in nics):
        raise Refused(message("The hypervisor cannot filter the network of micro VMs."), "libvirt defines no filters")


def to_text(element: etree._Element) -> str:
    return etree.tostring(element, encoding="unicode")
