"""The filter that keeps a guest to its own addresses: it sends from its MAC and its listed addresses, or not at all.

It is one flat list of few rules, because each rule is a program run by libvirt at every start of a machine. What it
lets pass from a guest:

* ARP that speaks for one of its IPv4 addresses (or for none, which is how a guest asks whether an address is taken);
* IPv4 and IPv6 from one of its addresses, but no answers of a DHCP server and no router advertisements;
* neighbour discovery from a link-local address, and from none when it asks whether an address is taken (redirects,
  which count only when they come from a link-local address, are not among these kinds);
* the announcement QEMU makes for it after a migration (RARP).

Everything else is dropped. What it cannot see is the inside of a neighbour advertisement: a guest may still claim a
neighbour's IPv6 address there, but it cannot send from it.
"""

import ipaddress

from lxml import etree
from lxml.builder import E

from worker.nodes.base import Nic

NAME = "panel-guard"
UUID = "a2f4b0c3-5f0e-4c5b-9d0e-6a1f6f0d7c11"
"""Fixed, so that a later release can replace the rules while machines run."""

NO_ADDRESS = {4: "0.0.0.0", 6: "::"}
"""Fills a list that would be empty: libvirt would go and learn the guest's address from what it sends."""


def rule(action: str, priority: int, *matches):
    return E.rule(*matches, action=action, direction="out", priority=str(priority))


def guard() -> str:
    discovery = {"protocol": "icmpv6", "srcipaddr": "fe80::", "srcipmask": "10"}
    # The numbers behind two lists in one rule let libvirt combine them; else it wants both to be of one length.
    rules = (
        rule("drop", -900, E.mac(match="no", srcmacaddr="$MAC")),
        rule("drop", -800, E.ip(protocol="udp", srcportstart="67")),
        rule("drop", -800, E.ipv6(protocol="udp", srcportstart="547")),
        rule("drop", -800, E.ipv6(protocol="icmpv6", type="134")),
        rule("accept", -700, E.arp(arpsrcmacaddr="$MAC[@1]", arpsrcipaddr="$IPV4[@2]")),
        rule("accept", -700, E.arp(arpsrcmacaddr="$MAC", arpsrcipaddr="0.0.0.0")),
        rule("accept", -700, E.ip(srcipaddr="$IPV4")),
        rule("accept", -700, E.ipv6(srcipaddr="$IPV6")),
        rule("accept", -600, E.ipv6(discovery, type="131", typeend="136")),
        rule("accept", -600, E.ipv6(discovery, type="143")),
        rule("accept", -600, E.ipv6(protocol="icmpv6", srcipaddr="::", srcipmask="128")),
        rule("accept", -600, E.mac(protocolid="rarp", srcmacaddr="$MAC")),
        rule("drop", 900),
    )
    return etree.tostring(E.filter(E.uuid(UUID), *rules, name=NAME, chain="root"), encoding="unicode")


def reference(nic: Nic):
    """Hangs the filter on a card, with the addresses that are the guest's."""
    listed = {4: [], 6: []}
    for address in nic.addresses:
        listed[ipaddress.ip_address(address).version].append(address)
    values = [(f"IPV{v}", address) for v, found in listed.items() for address in found or [NO_ADDRESS[v]]]
    return E.filterref(*(E.parameter(name=name, value=value) for name, value in values), filter=NAME)
