"""Machines: their definition and their power. Each function gets a live connection; the deadline is the caller's."""

import contextlib
from dataclasses import replace

import libvirt
import structlog
from lxml import etree

from worker.nodes.base import Machine, overlay_of
from worker.nodes.libvirt import domain_stats, firewall, firmware, nic_devices, xml
from worker.nodes.libvirt.errors import absent_is_fine
from worker.nodes.libvirt.pools import find_disk

log = structlog.get_logger()

FIREWALL_ATTEMPTS = 4
"""The host's firewall may be changed by others at the same moment; then the filter of a card is refused, and with it
the start. The next attempt finds it in order."""


NO_DIRECT_IO = "O_DIRECT"
"""In QEMU's words when the file system of a disk cannot go past the host's page cache."""


def find(connection: libvirt.virConnect, machine_id: str) -> libvirt.virDomain:
    return connection.lookupByUUIDString(machine_id)


def define(connection, machine: Machine, kvm: bool, limits: bool, guarded: bool, notes=()):
    """`notes` are further elements of its metadata."""
    paths = {disk: find_disk(connection, disk).path() for disk in (*machine.disks, *machine.media.values())}
    paths |= overlaid(connection, machine.disks)
    description = xml.domain(machine, paths, kvm, limits, guarded, notes, existing_type(connection, machine.id))
    if guarded:
        firewall.define(connection, machine.nics)
    try:
        connection.defineXML(description)
    except libvirt.libvirtError:
        earlier = known_as(connection, machine.id)
        if earlier in (None, machine.name):
            raise
        define_renamed(connection, machine, earlier, description)


def existing_type(connection, machine_id: str) -> str:
    """The machine type of the present definition, its version included; nothing where there is none."""
    with absent_is_fine():
        described = find(connection, machine_id).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        return etree.fromstring(described).find("os/type").get("machine", "")
    return ""


def overlaid(connection, disks) -> dict:
    """The disks that are used through an overlay, and where that is."""
    found = {}
    for disk in disks:
        with absent_is_fine():
            found[disk] = find_disk(connection, replace(disk, name=overlay_of(disk.name))).path()
    return found


def known_as(connection, machine_id: str) -> str | None:
    with absent_is_fine():
        return find(connection, machine_id).name()


def define_renamed(connection, machine: Machine, earlier: str, description: str):
    """libvirt takes a new name only by a call of its own, and only while the machine is off."""
    domain = find(connection, machine.id)
    domain.rename(machine.name)
    try:
        connection.defineXML(description)
    except libvirt.libvirtError:
        domain.rename(earlier)
        raise


def power(connection, machine_id: str):
    return domain_stats.power(find(connection, machine_id).state()[0])


def start(connection, machine_id: str):
    domain = find(connection, machine_id)
    firewall.renew(connection, nic_devices.macs(domain))
    for attempt in range(1, FIREWALL_ATTEMPTS + 1):
        try:
            with fine_when(domain.isActive):
                domain.create()
            return
        except libvirt.libvirtError as error:
            if NO_DIRECT_IO in str(error) and use_page_cache(connection, domain):
                continue
            if error.get_error_domain() != libvirt.VIR_FROM_FIREWALL or attempt == FIREWALL_ATTEMPTS:
                raise
            log.info("firewall_busy", machine=machine_id, attempt=attempt, detail=str(error))


def use_page_cache(connection, domain) -> bool:
    """Defines the machine's disks with the host's page cache, for a file system that cannot do without. Says whether
    anything changed."""
    description = etree.fromstring(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE))
    drivers = description.findall("devices/disk/driver[@cache='none']")
    for driver in drivers:
        driver.attrib.update(xml.PAGE_CACHE)
    if drivers:
        log.info("page_cache_used", machine=domain.UUIDString())
        connection.defineXML(xml.text(description))
    return bool(drivers)


def is_on(connection, machine_id: str) -> bool:
    return bool(find(connection, machine_id).isActive())


def shutdown(connection, machine_id: str):
    """Through the agent or, when that does not answer, by the power button: libvirt tries one after the other."""
    domain = find(connection, machine_id)
    with fine_when(lambda: not domain.isActive()):
        domain.shutdown()


def power_off(connection, machine_id: str):
    domain = find(connection, machine_id)
    with fine_when(lambda: not domain.isActive()):
        domain.destroy()


def restart(connection, machine_id: str):
    find(connection, machine_id).reboot()


def reset(connection, machine_id: str):
    find(connection, machine_id).reset()


def suspend(connection, machine_id: str):
    find(connection, machine_id).suspend()


def resume(connection, machine_id: str):
    domain = find(connection, machine_id)
    with fine_when(lambda: domain.state()[0] == libvirt.VIR_DOMAIN_RUNNING):
        domain.resume()


def delete(connection, machine_id: str) -> set[str]:
    """Returns the hardware addresses of its cards."""
    macs: set[str] = set()
    with absent_is_fine():
        domain = find(connection, machine_id)
        macs, name = nic_devices.macs(domain), domain.name()
        power_off(connection, machine_id)
        domain.undefineFlags(firmware.FORGET)
        firmware.forget(connection, machine_id, name)
        firewall.forget(connection, macs)
    return macs


@contextlib.contextmanager
def fine_when(so):
    """libvirt refuses to bring a machine into the state it is in. That is what was wanted, so it is no error."""
    try:
        yield
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_OPERATION_INVALID or not so():
            raise
