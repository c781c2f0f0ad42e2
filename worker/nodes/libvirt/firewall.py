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

from worker.nodes.base import FirewallRule, Nic
from worker.nodes.libvirt import filters

FILTER_UUID_NAMESPACE = uuid.UUID("5b1c7a52-41c7-4d1e-8f4f-0a3a6c1f2e90")
"""A filter that is defined again keeps its UUID, or libvirt takes it for another one."""

RULE_TAGS = {
    ("tcp", 4): "tcp",
    ("tcp", 6): "tcp-ipv6",
    ("udp", 4): "udp",
    ("udp", 6): "udp-ipv6",
    ("icmp", 4): "icmp",
    ("icmp", 6): "icmpv6",
    ("all", 4): "all",
    ("all", 6): "all-ipv6",
}
NEIGHBOUR_TYPES = ("134", "135", "136")
"""Router advertisements and neighbour discovery. Connections are not tracked for them."""

SOLICITED_MULTICAST = {"dstipaddr": "ff02::", "dstipmask": "16"}
"""Multicast on the link, which is how neighbours are asked for."""

MAIL_PRIORITY, PREFIX_PRIORITY, DISCOVERY_PRIORITY, ALLOW_PRIORITY, DROP_PRIORITY = -850, -700, 100, 500, 1000


def filter_name(mac: str) -> str:
    return f"panel-{mac.replace(':', '')}"


def build_filter(nic: Nic) -> str:
    """The whole filter of the card."""
    parts = [E.uuid(str(uuid.uuid5(FILTER_UUID_NAMESPACE, nic.mac))), filters.build_reference(nic)]
    for prefix in map(ipaddress.ip_network, nic.prefixes):
        source = {"srcipaddr": str(prefix.network_address), "srcipmask": str(prefix.prefixlen)}
        parts.append(filters.build_rule("accept", PREFIX_PRIORITY, E("ip" if prefix.version == 4 else "ipv6", source)))
    if not nic.mail:
        parts += [
            filters.build_rule("drop", MAIL_PRIORITY, E(kind, protocol="tcp", dstportstart="25"))
            for kind in ("ip", "ipv6")
        ]
    if nic.allowed is not None:
        parts += [*iter_discovery_rules(), *(build_allow_rule(each) for each in nic.allowed), *iter_final_rules()]
    return etree.tostring(E.filter(*parts, name=filter_name(nic.mac), chain="root"), encoding="unicode")


def build_rule(action: str, direction: str, priority: int, match):
    return E.rule(match, action=action, direction=direction, priority=str(priority))


def iter_discovery_rules() -> Iterable:
    for direction in ("in", "out"):
        for kind in NEIGHBOUR_TYPES:
            yield build_rule("accept", direction, DISCOVERY_PRIORITY, E.icmpv6(type=kind, state="NONE"))
        yield build_rule("accept", direction, DISCOVERY_PRIORITY, E.icmpv6(SOLICITED_MULTICAST, state="NONE"))


def build_allow_rule(allowed: FirewallRule):
    facts = {}
    if allowed.network:
        network = ipaddress.ip_network(allowed.network)
        other = "src" if allowed.direction == "in" else "dst"
        facts |= {f"{other}ipaddr": str(network.network_address), f"{other}ipmask": str(network.prefixlen)}
    if allowed.ports:
        facts |= {"dstportstart": str(allowed.ports[0]), "dstportend": str(allowed.ports[1])}
    return build_rule(
        "accept", allowed.direction, ALLOW_PRIORITY, E(RULE_TAGS[allowed.protocol, allowed.family], facts)
    )


def iter_final_rules() -> Iterable:
    """Errors about what was allowed pass; what is left does not."""
    for kind in ("all", "all-ipv6"):
        yield build_rule("accept", "inout", ALLOW_PRIORITY, E(kind, state="RELATED"))
    for kind in ("all", "all-ipv6"):
        yield build_rule("drop", "inout", DROP_PRIORITY, E(kind))


def define_filters(connection, nics: Iterable[Nic]):
    """Brings the filters of the cards to what is wanted, also those in force."""
    for nic in nics:
        connection.nwfilterDefineXML(build_filter(nic))


def upgrade_filters(connection, macs: Iterable[str]):
    """Hangs the present guard on cards whose filter an earlier release wrote."""
    for mac in macs:
        found = find_filter(connection, mac)
        tree = None if found is None else etree.fromstring(found.XMLDesc())
        reference = None if tree is None else tree.find(f"filterref[@filter='{filters.EARLIER_GUARD_NAME}']")
        if reference is not None:
            reference.set("filter", filters.GUARD_NAME)
            reference.append(E.parameter(name="LINK_LOCAL", value=filters.link_local_address(mac)))
            connection.nwfilterDefineXML(filters.build_guard())
            connection.nwfilterDefineXML(etree.tostring(tree, encoding="unicode"))


def delete_filters(connection, macs: Iterable[str]):
    for mac in macs:
        if (found := find_filter(connection, mac)) is not None:
            found.undefine()


def find_filter(connection, mac: str):
    """The filter of the card, or None."""
    try:
        return connection.nwfilterLookupByName(filter_name(mac))
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_NWFILTER:
            raise
        return None
