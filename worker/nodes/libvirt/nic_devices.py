"""Changing the network cards of machines, running or off."""

from collections.abc import Iterable

import libvirt
from lxml import etree

from worker.nodes.base import Nic
from worker.nodes.libvirt import firewall, xml

VARIABLE = ("filterref", "bandwidth", "link")
"""What `xml.variable` describes."""


def described(domain, flags=0) -> dict[str, etree._Element]:
    """The machine's cards by MAC, as it runs or, with the flag, as it is kept."""
    cards = etree.fromstring(domain.XMLDesc(flags)).iterfind("devices/interface")
    return {card.find("mac").get("address"): card for card in cards}


def macs(domain) -> set[str]:
    """Of what runs and of what is kept: a machine that was defined anew may run with other cards."""
    return {*described(domain), *described(domain, libvirt.VIR_DOMAIN_XML_INACTIVE)}


def change(connection, machine_id: str, nics: Iterable[Nic], limits: bool, guarded: bool):
    """The filters first: a card may get its address a moment early, but never a hole. What is the same stays untouched,
    because the replacing of a card's description runs many programs on the host."""
    domain = connection.lookupByUUIDString(machine_id)
    kept = described(domain, libvirt.VIR_DOMAIN_XML_INACTIVE)
    nics = [nic for nic in nics if nic.mac in kept]
    if guarded:
        firewall.define(connection, nics)
    replace(domain, kept, nics, libvirt.VIR_DOMAIN_AFFECT_CONFIG, limits, guarded)
    if domain.isActive():
        replace(domain, described(domain), nics, libvirt.VIR_DOMAIN_AFFECT_LIVE, limits, guarded)


def replace(domain, cards, nics, flag, limits, guarded):
    for nic in nics:
        if nic.mac not in cards:
            continue
        card = cards[nic.mac]
        wanted = xml.variable(nic, limits, guarded)
        if written(part for part in card if part.tag in VARIABLE) != written(wanted):
            for part in [part for part in card if part.tag in VARIABLE]:
                card.remove(part)
            card.extend(wanted)
            domain.updateDeviceFlags(xml.text(card), flag)


def written(parts) -> list[str]:
    """Comparable, without a link that is merely up: libvirt leaves that out at times."""
    texts = (etree.tostring(part, method="c14n", with_tail=False).decode() for part in parts)
    plain = ("".join(text.split()) for text in texts)
    return sorted(text for text in plain if text != '<linkstate="up"></link>')
