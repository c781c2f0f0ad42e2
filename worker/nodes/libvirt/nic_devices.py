"""Changing the network cards of machines, running or off."""

from collections.abc import Iterable

import libvirt
from lxml import etree

from worker.nodes.base import Nic
from worker.nodes.libvirt import firewall, xml

VARIABLE_ELEMENTS = ("filterref", "bandwidth", "link")
"""What `xml.variable` describes."""


def nics_by_mac(domain, flags=0) -> dict[str, etree._Element]:
    """The machine's cards by MAC, as it runs or, with the flag, as it is kept."""
    cards = etree.fromstring(domain.XMLDesc(flags)).iterfind("devices/interface")
    return {card.find("mac").get("address"): card for card in cards}


def list_macs(domain) -> set[str]:
    """Of what runs and of what is kept: a machine that was defined anew may run with other cards."""
    return {*nics_by_mac(domain), *nics_by_mac(domain, libvirt.VIR_DOMAIN_XML_INACTIVE)}


def update_nics(connection, machine_id: str, nics: Iterable[Nic], limits: bool, has_filters: bool):
    """The filters first: a card may get its address a moment early, but never a hole. What is the same stays untouched,
    because the replacing of a card's description runs many programs on the host."""
    domain = connection.lookupByUUIDString(machine_id)
    kept = nics_by_mac(domain, libvirt.VIR_DOMAIN_XML_INACTIVE)
    nics = [nic for nic in nics if nic.mac in kept]
    if has_filters:
        firewall.define_filters(connection, nics)
    replace_elements(domain, kept, nics, libvirt.VIR_DOMAIN_AFFECT_CONFIG, limits, has_filters)
    if domain.isActive():
        replace_elements(domain, nics_by_mac(domain), nics, libvirt.VIR_DOMAIN_AFFECT_LIVE, limits, has_filters)


def replace_elements(domain, cards, nics, flag, limits, has_filters):
    for nic in nics:
        if nic.mac not in cards:
            continue
        card = cards[nic.mac]
        wanted = xml.variable_nic_elements(nic, limits, has_filters)
        if canonical_elements(part for part in card if part.tag in VARIABLE_ELEMENTS) != canonical_elements(wanted):
            for part in [part for part in card if part.tag in VARIABLE_ELEMENTS]:
                card.remove(part)
            card.extend(wanted)
            domain.updateDeviceFlags(xml.to_text(card), flag)


def canonical_elements(parts) -> list[str]:
    """Comparable, without a link that is merely up: libvirt leaves that out at times."""
    texts = (etree.tostring(part, method="c14n", with_tail=False).decode() for part in parts)
    plain = ("".join(text.split()) for text in texts)
    return sorted(text for text in plain if text != '<linkstate="up"></link>')
