"""Changing the NICs of machines, running or off."""

import time
from collections.abc import Iterable, Mapping, Sequence

import libvirt
from lxml import etree

from worker.nodes.base import Nic
from worker.nodes.libvirt import firewall, xml

VARIABLE_ELEMENTS = ("filterref", "bandwidth", "link")
"""The elements that `xml.build_variable_nic_elements` creates."""

FIREWALL_ERROR = "Failed to apply firewall rules"
FIREWALL_ATTEMPTS, FIREWALL_RETRY_SECONDS = 3, 0.5


def map_nics_by_mac(domain: libvirt.virDomain, flags: int = 0) -> dict[str, etree._Element]:
    """Return the NICs by MAC, of the running machine or, with the flag, of its definition."""
    devices = etree.fromstring(domain.XMLDesc(flags)).iterfind("devices/interface")
    return {device.find("mac").get("address"): device for device in devices}


def list_macs(domain: libvirt.virDomain) -> set[str]:
    """Return the MACs of the running machine and of its definition: after a new definition they may differ until a
    restart."""
    return {*map_nics_by_mac(domain), *map_nics_by_mac(domain, libvirt.VIR_DOMAIN_XML_INACTIVE)}


def update_nics(
    connection: libvirt.virConnect, machine_id: str, nics: Sequence[Nic], limits: bool, has_filters: bool
) -> None:
    """Update the NICs, again when libvirt could not apply their firewall rules: its ebtables calls fail when another
    program changes tables at the same moment."""
    for attempt in range(FIREWALL_ATTEMPTS):
        try:
            return try_update_nics(connection, machine_id, nics, limits, has_filters)
        except libvirt.libvirtError as error:
            if attempt + 1 == FIREWALL_ATTEMPTS or FIREWALL_ERROR not in str(error):
                raise
            time.sleep(FIREWALL_RETRY_SECONDS)


def try_update_nics(
    connection: libvirt.virConnect, machine_id: str, nics: Iterable[Nic], limits: bool, has_filters: bool
) -> None:
    """Update the NICs, filters first: an address may then be allowed a moment early, but nothing is ever unfiltered.
    Unchanged devices are not touched, because replacing one runs many programs on the host."""
    domain = connection.lookupByUUIDString(machine_id)
    defined_devices = map_nics_by_mac(domain, libvirt.VIR_DOMAIN_XML_INACTIVE)
    nics = [nic for nic in nics if nic.mac in defined_devices]
    if has_filters:
        firewall.define_filters(connection, nics)
    replace_elements(domain, defined_devices, nics, libvirt.VIR_DOMAIN_AFFECT_CONFIG, limits, has_filters)
    if domain.isActive():
        replace_elements(domain, map_nics_by_mac(domain), nics, libvirt.VIR_DOMAIN_AFFECT_LIVE, limits, has_filters)


def apply_definition(domain: libvirt.virDomain) -> None:
    """Give the running machine's NICs what its definition says. A machine that continues from a saved state has them as
    they were then, whatever was changed meanwhile."""
    live_devices = map_nics_by_mac(domain)
    for mac, device in map_nics_by_mac(domain, libvirt.VIR_DOMAIN_XML_INACTIVE).items():
        elements = [part for part in device if part.tag in VARIABLE_ELEMENTS]
        if mac in live_devices and change_device(live_devices[mac], elements):
            domain.updateDeviceFlags(xml.to_text(live_devices[mac]), libvirt.VIR_DOMAIN_AFFECT_LIVE)


def replace_elements(
    domain: libvirt.virDomain,
    devices: Mapping[str, etree._Element],
    nics: Iterable[Nic],
    flag: int,
    limits: bool,
    has_filters: bool,
) -> None:
    for nic in nics:
        if nic.mac not in devices:
            continue
        device = devices[nic.mac]
        if change_device(device, xml.build_variable_nic_elements(nic, limits, has_filters)):
            domain.updateDeviceFlags(xml.to_text(device), flag)


def change_device(device: etree._Element, elements: list[etree._Element]) -> bool:
    """Replace the device's variable elements. Returns whether anything changed."""
    existing = [part for part in device if part.tag in VARIABLE_ELEMENTS]
    if canonicalize_elements(existing) == canonicalize_elements(elements):
        return False
    for part in existing:
        device.remove(part)
    device.extend(elements)
    return True


def canonicalize_elements(parts: Iterable[etree._Element]) -> list[str]:
    """Return comparable texts, without a link that is up: libvirt sometimes omits it."""
    texts = (etree.tostring(part, method="c14n", with_tail=False).decode() for part in parts)
    plain = ("".join(text.split()) for text in texts)
    return sorted(text for text in plain if text != '<linkstate="up"></link>')
