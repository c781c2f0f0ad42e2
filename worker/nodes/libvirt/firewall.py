"""The filter of a card: its guest's own addresses, the switch for mail, and what may pass.

Each card has one of its own, `panel-` and its MAC, that refers to the common guard with the guest's addresses. Changing
what may pass is defining that filter anew: libvirt puts it into force on the running machine, and nothing of the
machine's description changes.

The rules for connections are iptables' on the bridge, so the host must hand bridged packets to it (br_netfilter, with
`net.bridge.bridge-nf-call-iptables` and `-ip6tables` at 1). Each rule that libvirt makes for a direction also lets
through the answers of the other one, and those alone: a packet that comes in to the guest from the host itself, which
no bridge sees, finds a guest whose answer is dropped.

A guest in a firewall that may send to the host passes the host's INPUT chain there. What the host does not want from
guests at all belongs into a table of its own (nftables) or before that chain.
"""

import ipaddress
import uuid
from collections.abc import Iterable

import libvirt
from lxml import etree
from lxml.builder import E

from worker.nodes.base import Allowed, Nic
from worker.nodes.libvirt import filters

OURS = uuid.UUID("5b1c7a52-41c7-4d1e-8f4f-0a3a6c1f2e90")
"""A filter that is defined again keeps its UUID, or libvirt takes it for another one."""

TAGS = {
    ("tcp", 4): "tcp",
    ("tcp", 6): "tcp-ipv6",
    ("udp", 4): "udp",
    ("udp", 6): "udp-ipv6",
    ("icmp", 4): "icmp",
    ("icmp", 6): "icmpv6",
    ("all", 4): "all",
    ("all", 6): "all-ipv6",
}
NEIGHBOURS = ("134", "135", "136")
"""Router advertisements and neighbour discovery. Connections are not tracked for them."""

SOLICITED = {"dstipaddr": "ff02::", "dstipmask": "16"}
"""Multicast on the link, which is how neighbours are asked for."""

MAIL, PREFIX, DISCOVERY, LISTED, REST = -850, -700, 100, 500, 1000


def name_of(mac: str) -> str:
    return f"panel-{mac.replace(':', '')}"


def describe(nic: Nic) -> str:
    """The whole filter of the card."""
    parts = [E.uuid(str(uuid.uuid5(OURS, nic.mac))), filters.reference(nic)]
    for prefix in map(ipaddress.ip_network, nic.prefixes):
        source = {"srcipaddr": str(prefix.network_address), "srcipmask": str(prefix.prefixlen)}
        parts.append(filters.rule("accept", PREFIX, E("ip" if prefix.version == 4 else "ipv6", source)))
    if not nic.mail:
        parts += [filters.rule("drop", MAIL, E(kind, protocol="tcp", dstportstart="25")) for kind in ("ip", "ipv6")]
    if nic.allowed is not None:
        parts += [*discovery(), *(listed(each) for each in nic.allowed), *rest()]
    return etree.tostring(E.filter(*parts, name=name_of(nic.mac), chain="root"), encoding="unicode")


def rule(action: str, direction: str, priority: int, match):
    return E.rule(match, action=action, direction=direction, priority=str(priority))


def discovery() -> Iterable:
    for direction in ("in", "out"):
        for kind in NEIGHBOURS:
            yield rule("accept", direction, DISCOVERY, E.icmpv6(type=kind, state="NONE"))
        yield rule("accept", direction, DISCOVERY, E.icmpv6(SOLICITED, state="NONE"))


def listed(allowed: Allowed):
    facts = {}
    if allowed.network:
        network = ipaddress.ip_network(allowed.network)
        other = "src" if allowed.direction == "in" else "dst"
        facts |= {f"{other}ipaddr": str(network.network_address), f"{other}ipmask": str(network.prefixlen)}
    if allowed.ports:
        facts |= {"dstportstart": str(allowed.ports[0]), "dstportend": str(allowed.ports[1])}
    return rule("accept", allowed.direction, LISTED, E(TAGS[allowed.protocol, allowed.family], facts))


def rest() -> Iterable:
    """Errors about what was allowed pass; what is left does not."""
    for kind in ("all", "all-ipv6"):
        yield rule("accept", "inout", LISTED, E(kind, state="RELATED"))
    for kind in ("all", "all-ipv6"):
        yield rule("drop", "inout", REST, E(kind))


def define(connection, nics: Iterable[Nic]):
    """Brings the filters of the cards to what is wanted, also those in force."""
    for nic in nics:
        connection.nwfilterDefineXML(describe(nic))


def renew(connection, macs: Iterable[str]):
    """Hangs the present guard on cards whose filter an earlier release wrote."""
    for mac in macs:
        found = lookup(connection, mac)
        tree = None if found is None else etree.fromstring(found.XMLDesc())
        reference = None if tree is None else tree.find(f"filterref[@filter='{filters.EARLIER_NAME}']")
        if reference is not None:
            reference.set("filter", filters.NAME)
            reference.append(E.parameter(name="LINK_LOCAL", value=filters.link_local(mac)))
            connection.nwfilterDefineXML(filters.guard())
            connection.nwfilterDefineXML(etree.tostring(tree, encoding="unicode"))


def forget(connection, macs: Iterable[str]):
    for mac in macs:
        if (found := lookup(connection, mac)) is not None:
            found.undefine()


def lookup(connection, mac: str):
    """The filter of the card, or None."""
    try:
        return connection.nwfilterLookupByName(name_of(mac))
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_NWFILTER:
            raise
        return None
