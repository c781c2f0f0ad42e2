"""The guard: a filter that lets a guest send only from its MAC and its listed addresses.

It is one flat list of few rules, because libvirt runs a program for each rule at every start of a machine. It accepts
from a guest:

* ARP for one of its IPv4 addresses (or for none, by which a guest asks whether an address is in use);
* IPv4 and IPv6 from one of its addresses, but no answers of a DHCP server and no router advertisements;
* neighbor discovery from one of its addresses or from the link-local address derived from its MAC, and from the
  unspecified address when it asks whether an address is in use (redirects, which count only when they come from a
  link-local address, are not among these types);
* the announcement that QEMU sends for it after a migration (RARP).

Everything else is dropped. libvirt cannot match the payload of a neighbor advertisement: `neighbors` does that.
"""

import ipaddress

from lxml import etree
from lxml.builder import E

from worker.nodes.base import Nic

GUARD_NAME = "panel-guard-2"
GUARD_UUID = "0d4c5ff2-6cf3-4e52-a4a5-2b8f4b9f2f6e"
"""Fixed, so that a later release can replace the rules while machines run. A guard with another parameter needs another
name, because the NICs in use do not have that parameter."""

EARLIER_GUARD_NAME = "panel-guard"
"""The filter of earlier releases, which had no parameter `LINK_LOCAL`."""

NO_ADDRESS = {4: "0.0.0.0", 6: "::"}
"""Fills a list that would be empty: libvirt would otherwise learn the guest's address from its traffic."""


def build_rule(action: str, priority: int, *matches: etree._Element) -> etree._Element:
    return E.rule(*matches, action=action, direction="out", priority=str(priority))


def build_guard() -> str:
    discovery = {"protocol": "icmpv6", "srcipaddr": "$LINK_LOCAL"}
    # With an index after each of two lists libvirt combines them; otherwise both must have the same length.
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


def build_reference(nic: Nic) -> etree._Element:
    """Return a NIC's reference to the guard, with the guest's addresses."""
    addresses_by_version: dict[int, list[str]] = {4: [], 6: []}
    for address in nic.addresses:
        addresses_by_version[ipaddress.ip_address(address).version].append(address)
    values = [
        (f"IPV{v}", address)
        for v, addresses in addresses_by_version.items()
        for address in addresses or [NO_ADDRESS[v]]
    ]
    values.append(("LINK_LOCAL", make_link_local_address(nic.mac)))
    return E.filterref(*(E.parameter(name=name, value=value) for name, value in values), filter=GUARD_NAME)


def make_link_local_address(mac: str) -> str:
    """Return the address that a guest derives from its MAC (RFC 4291, appendix A)."""
    octets = bytes.fromhex(mac.replace(":", ""))
    identifier = bytes([octets[0] ^ 2]) + octets[1:3] + b"\xff\xfe" + octets[3:]
    return str(ipaddress.IPv6Address(b"\xfe\x80" + bytes(6) + identifier))
