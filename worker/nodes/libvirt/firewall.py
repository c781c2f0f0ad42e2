"""The filter of a NIC: the guest's own addresses, the switch for mail, and the firewall rules.

Each NIC has its own filter, `panel-` and its MAC, which refers to the common guard with the guest's addresses. To
change the rules that filter is defined again: libvirt applies it to the running machine, and the machine's definition
does not change.

The rules for connections are iptables rules on the bridge, so the host must pass bridged packets to iptables
(br_netfilter, with `net.bridge.bridge-nf-call-iptables` and `-ip6tables` at 1). Each rule that libvirt creates for a
direction also accepts the answers of the other direction, and only those: a packet to the guest from the host itself,
which does not cross the bridge, reaches the guest, but the answer is dropped.

If a guest's rules allow packets to the host, libvirt accepts them in the host's INPUT chain. What the host must refuse
to every guest belongs in a table of its own (nftables) or before that chain.
"""

import ipaddress
import uuid
from collections.abc import Iterable, Iterator

import libvirt
from lxml import etree
from lxml.builder import E

from worker.nodes.base import FirewallRule, Nic
from worker.nodes.libvirt import filters, sandbox_network

FILTER_UUID_NAMESPACE = uuid.UUID("5b1c7a52-41c7-4d1e-8f4f-0a3a6c1f2e90")
"""A filter that is defined again must have the same UUID, or libvirt takes it for another one."""

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
NEIGHBOR_TYPES = ("134", "135", "136")
"""ICMPv6 types of router advertisements and neighbor discovery. Connections are not tracked for them."""

SOLICITED_MULTICAST = {"dstipaddr": "ff02::", "dstipmask": "16"}
"""Link-local multicast, by which neighbors are asked."""

MAIL_PRIORITY, PREFIX_PRIORITY, DISCOVERY_PRIORITY, ALLOW_PRIORITY, DROP_PRIORITY = -850, -700, 100, 500, 1000


def make_filter_name(mac: str) -> str:
    return f"panel-{mac.replace(':', '')}"


def build_filter(nic: Nic) -> str:
    """Return the whole filter of the NIC."""
    parts = [E.uuid(str(uuid.uuid5(FILTER_UUID_NAMESPACE, nic.mac))), filters.build_reference(nic)]
    for prefix in map(ipaddress.ip_network, nic.prefixes):
        source = {"srcipaddr": str(prefix.network_address), "srcipmask": str(prefix.prefixlen)}
        parts.append(filters.build_rule("accept", PREFIX_PRIORITY, E("ip" if prefix.version == 4 else "ipv6", source)))
    if not nic.mail:
        parts += [
            filters.build_rule("drop", MAIL_PRIORITY, E(kind, protocol="tcp", dstportstart="25"))
            for kind in ("ip", "ipv6")
        ]
    if nic.egress is not None:
        parts += sandbox_network.iter_nic_rules(nic, nic.egress)
    if nic.allowed is not None:
        parts += [*iter_discovery_rules(), *(build_allow_rule(rule) for rule in nic.allowed), *iter_final_rules()]
    return etree.tostring(E.filter(*parts, name=make_filter_name(nic.mac), chain="root"), encoding="unicode")


def build_rule(action: str, direction: str, priority: int, match: etree._Element) -> etree._Element:
    return E.rule(match, action=action, direction=direction, priority=str(priority))


def iter_discovery_rules() -> Iterator[etree._Element]:
    for direction in ("in", "out"):
        for kind in NEIGHBOR_TYPES:
            yield build_rule("accept", direction, DISCOVERY_PRIORITY, E.icmpv6(type=kind, state="NONE"))
        yield build_rule("accept", direction, DISCOVERY_PRIORITY, E.icmpv6(SOLICITED_MULTICAST, state="NONE"))


def build_allow_rule(rule: FirewallRule) -> etree._Element:
    match: dict[str, str] = {}
    if rule.network:
        network = ipaddress.ip_network(rule.network)
        peer_side = "src" if rule.direction == "in" else "dst"
        match |= {f"{peer_side}ipaddr": str(network.network_address), f"{peer_side}ipmask": str(network.prefixlen)}
    if rule.ports:
        match |= {"dstportstart": str(rule.ports[0]), "dstportend": str(rule.ports[1])}
    return build_rule("accept", rule.direction, ALLOW_PRIORITY, E(RULE_TAGS[rule.protocol, rule.family], match))


def iter_final_rules() -> Iterator[etree._Element]:
    """Yield rules that accept errors about allowed connections and drop everything else."""
    for kind in ("all", "all-ipv6"):
        yield build_rule("accept", "inout", ALLOW_PRIORITY, E(kind, state="RELATED"))
    for kind in ("all", "all-ipv6"):
        yield build_rule("drop", "inout", DROP_PRIORITY, E(kind))


def define_filters(connection: libvirt.virConnect, nics: Iterable[Nic]) -> None:
    """Define the filters of the NICs, which also changes the ones in force."""
    for nic in nics:
        connection.nwfilterDefineXML(build_filter(nic))


def upgrade_filters(connection: libvirt.virConnect, macs: Iterable[str]) -> None:
    """Refer to the present guard from filters that an earlier release wrote."""
    for mac in macs:
        nic_filter = find_filter(connection, mac)
        tree = None if nic_filter is None else etree.fromstring(nic_filter.XMLDesc())
        reference = None if tree is None else tree.find(f"filterref[@filter='{filters.EARLIER_GUARD_NAME}']")
        if reference is not None:
            reference.set("filter", filters.GUARD_NAME)
            reference.append(E.parameter(name="LINK_LOCAL", value=filters.make_link_local_address(mac)))
            connection.nwfilterDefineXML(filters.build_guard())
            connection.nwfilterDefineXML(etree.tostring(tree, encoding="unicode"))


def delete_filters(connection: libvirt.virConnect, macs: Iterable[str]) -> None:
    for mac in macs:
        if (nic_filter := find_filter(connection, mac)) is not None:
            nic_filter.undefine()


def find_filter(connection: libvirt.virConnect, mac: str) -> libvirt.virNWFilter | None:
    """Return the filter of the NIC, or None."""
    try:
        return connection.nwfilterLookupByName(make_filter_name(mac))
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_NWFILTER:
            raise
        return None
