"""The filter that keeps a guest to its own addresses: it sends from its MAC and its listed addresses, or not at all.

It is one flat list of few rules, because each rule is a program run by libvirt at every start of a machine. What it
lets pass from a guest:

* ARP that speaks for one of its IPv4 addresses (or for none, which is how a guest asks whether an address is taken);
* IPv4 and IPv6 from one of its addresses, but no answers of a DHCP server and no router advertisements;
* neighbour discovery from one of its addresses or from the link-local address that follows from its MAC, and from
  none when it asks whether an address is taken (redirects, which count only when they come from a link-local address,
  are not among these kinds);
* the announcement QEMU makes for it after a migration (RARP).

Everything else is dropped. What libvirt cannot see is the inside of a neighbour advertisement: `neighbours` looks
there.
"""

import ipaddress

from lxml import etree
from lxml.builder import E

from worker.nodes.base import Nic

GUARD_NAME = "panel-guard-2"
GUARD_UUID = "0d4c5ff2-6cf3-4e52-a4a5-2b8f4b9f2f6e"
"""Fixed, so that a later release can replace the rules while machines run. One that asks the cards for another
parameter needs another name, because the cards that are in use do not have it."""

EARLIER_GUARD_NAME = "panel-guard"
"""The filter of earlier releases, which knew no `LINK_LOCAL`."""

NO_ADDRESS = {4: "0.0.0.0", 6: "::"}
"""Fills a list that would be empty: libvirt would go and learn the guest's address from what it sends."""


def build_rule(action: str, priority: int, *matches):
    return E.rule(*matches, action=action, direction="out", priority=str(priority))


def build_guard() -> str:
    discovery = {"protocol": "icmpv6", "srcipaddr": "$LINK_LOCAL"}
    # The numbers behind two lists in one rule let libvirt combine them; else it wants both to be of one length.
    rules = (
        build_rule("drop", -900, E.mac(match="no", srcmacaddr="$MAC")),
        build_rule("drop", -800, E.ip(protocol="udp", srcportstart="67")),
        build_rule("drop", -800, E.ipv6(protocol="udp", srcportstart="547")),
        build_rule("drop", -800, E.ipv6(protocol="icmpv6", type="134")),
        build_rule("accept", -700, E.arp(arpsrcmacaddr="$MAC[@1]", arpsrcipaddr="$IPV4[@2]")),
        build_rule("accept", -700, E.arp(arpsrcmacaddr="$MAC", arpsrcipaddr="0.0.0.0")),
        build_rule("accept", -700, E.ip(srcipaddr="$IPV4")),
        build_rule("accept", -700, E.ipv6(srcipaddr="$IPV6")),
        build_rule("accept", -600, E.ipv6(discovery, type="131", typeend="136")),
        build_rule("accept", -600, E.ipv6(discovery, type="143")),
        build_rule("accept", -600, E.ipv6(protocol="icmpv6", srcipaddr="::", srcipmask="128")),
        build_rule("accept", -600, E.mac(protocolid="rarp", srcmacaddr="$MAC")),
        build_rule("drop", 900),
    )
    return etree.tostring(E.filter(E.uuid(GUARD_UUID), *rules, name=GUARD_NAME, chain="root"), encoding="unicode")


def build_reference(nic: Nic):
    """Hangs the filter on a card, with the addresses that are the guest's."""
    listed = {4: [], 6: []}
    for address in nic.addresses:
        listed[ipaddress.ip_address(address).version].append(address)
    values = [(f"IPV{v}", address) for v, found in listed.items() for address in found or [NO_ADDRESS[v]]]
    values.append(("LINK_LOCAL", link_local_address(nic.mac)))
    return E.filterref(*(E.parameter(name=name, value=value) for name, value in values), filter=GUARD_NAME)


def link_local_address(mac: str) -> str:
    """The address that a guest makes of its MAC (RFC 4291, appendix A)."""
    octets = bytes.fromhex(mac.replace(":", ""))
    identifier = bytes([octets[0] ^ 2]) + octets[1:3] + b"\xff\xfe" + octets[3:]
    return str(ipaddress.IPv6Address(b"\xfe\x80" + bytes(6) + identifier))
