"""What a guest may say of IPv6 neighbours, where the hypervisor is this machine.

A neighbour advertisement names the address it is about inside the packet, where libvirt's filters cannot look. So the
kernel's packet filter does (nftables, before libvirt's own rules): an advertisement from a card passes when it is about
one of the guest's addresses or its link-local address. The chains belong to hardware addresses, which `filters` ties to
their cards. Other hosts are reached through libvirt only and lack this.
"""

import ipaddress
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from urllib.parse import urlsplit

import structlog
from lxml import etree

from worker.nodes.base import Nic
from worker.nodes.libvirt.filters import link_local_address

log = structlog.get_logger()

NFT_TABLE = "bridge panel-neighbours"

CHAIN_PRIORITY = -310
"""Priority of the chain; libvirt's rules are at -300."""

COMMON_RULES = f"""\
add table {NFT_TABLE}
add map {NFT_TABLE} cards {{ type ether_addr : verdict; }}
add chain {NFT_TABLE} guests {{ type filter hook prerouting priority {CHAIN_PRIORITY}; }}
flush chain {NFT_TABLE} guests
add rule {NFT_TABLE} guests icmpv6 type nd-neighbor-advert ether saddr vmap @cards
"""

PROGRAM_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"

FILTER_NAME = re.compile(r"panel-([0-9a-f]{12})")
"""Those of cards (`firewall.name_of`)."""


def is_possible(uri: str) -> bool:
    """Whether the node of that address is this machine, and its packet filter can be changed."""
    address = urlsplit(uri)
    here = address.scheme in ("qemu", "qemu+unix") and not address.hostname
    return here and os.geteuid() == 0 and shutil.which("nft", path=PROGRAM_PATH) is not None


def allow_advertisements(nics: Iterable[Nic]):
    """After success the cards may advertise their own addresses and no others."""
    cards = {nic.mac: (*nic.addresses, *nic.prefixes) for nic in nics}
    if cards:
        load_rules(COMMON_RULES + "".join(nic_rules(mac, addresses) for mac, addresses in cards.items()))


def nic_rules(mac: str, addresses: Iterable[str]) -> str:
    chain = chain_name(mac)
    networks = map(ipaddress.ip_network, (*addresses, link_local_address(mac)))
    rules = [f"add rule {NFT_TABLE} {chain} {match_target(each)} accept\n" for each in networks if each.version == 6]
    return (
        f"add chain {NFT_TABLE} {chain}\nflush chain {NFT_TABLE} {chain}\n"
        + "".join(rules)
        + f"add rule {NFT_TABLE} {chain} drop\nadd element {NFT_TABLE} cards {{ {mac} : goto {chain} }}\n"
    )


def match_target(network: ipaddress.IPv6Network) -> str:
    """Matches the address that an advertisement is about: 128 bits, 64 bits after the start of ICMPv6."""
    if not network.prefixlen:
        return ""
    bits = int(network.network_address) >> (128 - network.prefixlen)
    return f"@th,64,{network.prefixlen} {bits:#x}"


def delete_rules(macs: Iterable[str]):
    for mac in macs:
        chain = chain_name(mac)
        present = nic_rules(mac, ())  # what is not there cannot be deleted
        load_rules(
            f"{COMMON_RULES}{present}delete element {NFT_TABLE} cards {{ {mac} }}\ndelete chain {NFT_TABLE} {chain}\n"
        )


def restore_rules(connection):
    """Brings back the rules of all cards after a start of this machine. libvirt kept their addresses."""
    nics = []
    for mac, kept in list_nic_filters(connection):
        tree = etree.fromstring(kept.XMLDesc())
        addresses = tuple(tree.xpath("filterref/parameter[@name='IPV4' or @name='IPV6']/@value"))
        accepted = tree.xpath("rule[@action='accept'][@direction='out']/ipv6[@srcipaddr][@srcipmask]")
        prefixes = tuple(f"{each.get('srcipaddr')}/{each.get('srcipmask')}" for each in accepted)
        nics.append(Nic(mac, "", addresses, prefixes=prefixes))
    allow_advertisements(nics)


def forget_all(connection):
    """Takes away the rules of all cards of this hypervisor. `restore_rules` brings them back."""
    delete_rules(mac for mac, _ in list_nic_filters(connection))


def list_nic_filters(connection):
    """Pairs of a card's hardware address and what libvirt keeps of its filter."""
    for kept in connection.listAllNWFilters():
        if found := FILTER_NAME.fullmatch(kept.name()):
            yield ":".join(re.findall("..", found[1])), kept


def chain_name(mac: str) -> str:
    return f"card-{mac.replace(':', '').lower()}"


def load_rules(script: str):
    """All of it at once or nothing."""
    done = subprocess.run(
        ["nft", "-f", "-"],
        env={"PATH": PROGRAM_PATH, "LC_ALL": "C"},
        input=script,
        capture_output=True,
        text=True,
        timeout=30,
    )
    if done.returncode:
        log.warning("neighbour_rules_refused", detail=done.stderr.strip()[-500:])
