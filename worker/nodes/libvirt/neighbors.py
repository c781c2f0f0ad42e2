"""Filters the IPv6 neighbor advertisements of guests, where the hypervisor is this machine.

A neighbor advertisement contains the address it is about in its payload, where libvirt's filters cannot match. So the
kernel's packet filter does it (nftables, before libvirt's own rules): an advertisement from a NIC passes when it is
about one of the guest's addresses or its link-local address. The chains belong to MACs, which `filters` binds to their
NICs. Other hosts are reached through libvirt only and do not have this filter.
"""

import ipaddress
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

import libvirt
import structlog
from lxml import etree

from worker.nodes.base import Nic
from worker.nodes.libvirt.filters import make_link_local_address

log = structlog.get_logger()

NFT_TABLE = "bridge panel-neighbours"
"""Its name stays: hypervisors have the table already, and one of another name would apply beside it."""

CHAIN_PRIORITY = -310
"""Priority of the chain; libvirt's rules have -300."""

COMMON_RULES = f"""\
add table {NFT_TABLE}
add map {NFT_TABLE} cards {{ type ether_addr : verdict; }}
add chain {NFT_TABLE} guests {{ type filter hook prerouting priority {CHAIN_PRIORITY}; }}
flush chain {NFT_TABLE} guests
add rule {NFT_TABLE} guests icmpv6 type nd-neighbor-advert ether saddr vmap @cards
"""

PROGRAM_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"

FILTER_NAME = re.compile(r"panel-([0-9a-f]{12})")
"""The names of NICs' filters (`firewall.make_filter_name`)."""


def is_possible(uri: str) -> bool:
    """Return whether the node at that URI is this machine, and its packet filter can be changed."""
    address = urlsplit(uri)
    is_local = address.scheme in ("qemu", "qemu+unix") and not address.hostname
    return is_local and os.geteuid() == 0 and shutil.which("nft", path=PROGRAM_PATH) is not None


def allow_advertisements(nics: Iterable[Nic]) -> None:
    """After success the NICs may advertise their own addresses and no others."""
    addresses_by_mac = {nic.mac: (*nic.addresses, *nic.prefixes) for nic in nics}
    if addresses_by_mac:
        load_rules(
            COMMON_RULES + "".join(build_nic_rules(mac, addresses) for mac, addresses in addresses_by_mac.items())
        )


def build_nic_rules(mac: str, addresses: Iterable[str]) -> str:
    chain = make_chain_name(mac)
    networks = map(ipaddress.ip_network, (*addresses, make_link_local_address(mac)))
    rules = [
        f"add rule {NFT_TABLE} {chain} {build_target_match(network)} accept\n"
        for network in networks
        if network.version == 6
    ]
    return (
        f"add chain {NFT_TABLE} {chain}\nflush chain {NFT_TABLE} {chain}\n"
        + "".join(rules)
        + f"add rule {NFT_TABLE} {chain} drop\nadd element {NFT_TABLE} cards {{ {mac} : goto {chain} }}\n"
    )


def build_target_match(network: ipaddress.IPv6Network) -> str:
    """Return a match for the target address of an advertisement: 128 bits, from bit 64 of the ICMPv6 message."""
    if not network.prefixlen:
        return ""
    bits = int(network.network_address) >> (128 - network.prefixlen)
    return f"@th,64,{network.prefixlen} {bits:#x}"


def delete_rules(macs: Iterable[str]) -> None:
    for mac in macs:
        chain = make_chain_name(mac)
        present = build_nic_rules(mac, ())  # added first, because deleting a missing rule is an error
        load_rules(
            f"{COMMON_RULES}{present}delete element {NFT_TABLE} cards {{ {mac} }}\ndelete chain {NFT_TABLE} {chain}\n"
        )


def restore_rules(connection: libvirt.virConnect) -> None:
    """Restore the rules of all NICs after a start of this machine, from the filters that libvirt has stored."""
    nics = []
    for mac, nic_filter in list_nic_filters(connection):
        tree = etree.fromstring(nic_filter.XMLDesc())
        addresses = tuple(tree.xpath("filterref/parameter[@name='IPV4' or @name='IPV6']/@value"))
        accepted = tree.xpath("rule[@action='accept'][@direction='out']/ipv6[@srcipaddr][@srcipmask]")
        prefixes = tuple(f"{match.get('srcipaddr')}/{match.get('srcipmask')}" for match in accepted)
        nics.append(Nic(mac, "", addresses, prefixes=prefixes))
    allow_advertisements(nics)


def forget_all(connection: libvirt.virConnect) -> None:
    """Delete the rules of all NICs of this hypervisor. `restore_rules` restores them."""
    delete_rules(mac for mac, _ in list_nic_filters(connection))


def list_nic_filters(connection: libvirt.virConnect) -> Iterator[tuple[str, libvirt.virNWFilter]]:
    """Yield pairs of a NIC's MAC and its filter in libvirt."""
    for nic_filter in connection.listAllNWFilters():
        if match := FILTER_NAME.fullmatch(nic_filter.name()):
            yield ":".join(re.findall("..", match[1])), nic_filter


def make_chain_name(mac: str) -> str:
    return f"card-{mac.replace(':', '').lower()}"


def load_rules(script: str) -> None:
    """Load the whole script or, on an error, nothing."""
    result = subprocess.run(
        ["nft", "-f", "-"],
        env={"PATH": PROGRAM_PATH, "LC_ALL": "C"},
        input=script,
        capture_output=True,
        text=True,
        timeout=30,
    )
    if result.returncode:
        log.warning("neighbor_rules_refused", detail=result.stderr.strip()[-500:])
