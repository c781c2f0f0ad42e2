"""Machines: their definition and power state. Each function gets a live connection; the caller sets the deadline."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import libvirt
import structlog
from lxml import etree

from worker.nodes.base import Disk, Machine, Power, make_overlay_name
from worker.nodes.libvirt import checkpoints, domain_stats, firewall, firmware, nic_devices, saved_state, xml
from worker.nodes.libvirt.capabilities import ProbedCapabilities
from worker.nodes.libvirt.errors import ignore_missing
from worker.nodes.libvirt.pools import get_volume

log = structlog.get_logger()

MAX_FIREWALL_ATTEMPTS = 4
"""Attempts to start a machine. When another program changes the host's firewall at the same moment, a NIC's filter is
refused, and with it the start; the next attempt usually succeeds."""


NO_DIRECT_IO = "O_DIRECT"
"""Part of QEMU's error message when a disk's file system does not support direct I/O."""


def get_domain(connection: libvirt.virConnect, machine_id: str) -> libvirt.virDomain:
    return connection.lookupByUUIDString(machine_id)


def define(
    connection: libvirt.virConnect,
    machine: Machine,
    facts: ProbedCapabilities,
    metadata: Iterable[etree._Element] = (),
) -> None:
    """Define the machine. `metadata` are further elements of its metadata."""
    kernel_files = (machine.kernel.image, machine.kernel.initrd) if machine.kernel else ()
    volumes = (*machine.disks, *machine.media.values(), *kernel_files)
    paths = {volume: get_volume(connection, volume).path() for volume in volumes}
    paths |= map_overlay_paths(connection, machine.disks)
    description = xml.build_domain_xml(machine, paths, facts, metadata, find_machine_type(connection, machine.id))
    if facts.address_filters:
        firewall.define_filters(connection, machine.nics)
    try:
        connection.defineXML(description)
    except libvirt.libvirtError:
        old_name = find_name(connection, machine.id)
        if old_name in (None, machine.name):
            raise
        define_renamed(connection, machine, old_name, description)
    saved_state.delete(connection, machine.id)


def find_machine_type(connection: libvirt.virConnect, machine_id: str) -> str:
    """Return the machine type of the present definition, with its version; an empty text without a definition."""
    with ignore_missing():
        definition = get_domain(connection, machine_id).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        return etree.fromstring(definition).find("os/type").get("machine", "")
    return ""


def map_overlay_paths(connection: libvirt.virConnect, disks: Iterable[Disk]) -> dict[Disk, str]:
    """Return disk → overlay's path, for the disks that have an overlay."""
    paths = {}
    for disk in disks:
        with ignore_missing():
            paths[disk] = get_volume(connection, replace(disk, name=make_overlay_name(disk.name))).path()
    return paths


def find_name(connection: libvirt.virConnect, machine_id: str) -> str | None:
    with ignore_missing():
        return get_domain(connection, machine_id).name()


def define_renamed(connection: libvirt.virConnect, machine: Machine, old_name: str, description: str) -> None:
    """Rename, then define. libvirt changes a name only by a separate call, and only while the machine is off."""
    domain = get_domain(connection, machine.id)
    saved_state.delete(connection, machine.id)  # libvirt renames no machine that has one
    checkpoints.delete(domain)  # nor one with checkpoints
    domain.rename(machine.name)
    try:
        connection.defineXML(description)
    except libvirt.libvirtError:
        domain.rename(old_name)
        raise


def power(connection: libvirt.virConnect, machine_id: str) -> Power:
    return domain_stats.to_power(get_domain(connection, machine_id).state()[0])


def start(connection: libvirt.virConnect, machine_id: str) -> None:
    domain = get_domain(connection, machine_id)
    firewall.upgrade_filters(connection, nic_devices.list_macs(domain))
    for attempt in range(1, MAX_FIREWALL_ATTEMPTS + 1):
        try:
            with ignore_if(domain.isActive):
                if domain.hasManagedSaveImage() or saved_state.is_restored(domain):
                    continue_saved(domain)
                else:
                    domain.create()
            return
        except libvirt.libvirtError as error:
            if NO_DIRECT_IO in str(error) and use_page_cache(connection, domain):
                continue
            if error.get_error_domain() != libvirt.VIR_FROM_FIREWALL or attempt == MAX_FIREWALL_ATTEMPTS:
                raise
            log.info("firewall_busy", machine=machine_id, attempt=attempt, detail=str(error))


def continue_saved(domain: libvirt.virDomain) -> None:
    """Start a machine with a saved state, paused until its NICs are as defined. On failure the state is saved again. An
    earlier call may have been cut off in between."""
    if not saved_state.is_restored(domain):
        domain.createWithFlags(libvirt.VIR_DOMAIN_START_PAUSED)
    try:
        nic_devices.apply_definition(domain)
        domain.resume()
    except libvirt.libvirtError:
        domain.managedSave(libvirt.VIR_DOMAIN_SAVE_RUNNING)
        raise


def use_page_cache(connection: libvirt.virConnect, domain: libvirt.virDomain) -> bool:
    """Define the machine's disks with the host's page cache, for a file system without direct I/O. Returns whether
    anything changed."""
    description = etree.fromstring(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE))
    drivers = description.findall("devices/disk/driver[@cache='none']")
    for driver in drivers:
        driver.attrib.update(xml.PAGE_CACHE)
    if drivers:
        log.info("page_cache_enabled", machine=domain.UUIDString())
        connection.defineXML(xml.to_text(description))
    return bool(drivers)


def is_on(connection: libvirt.virConnect, machine_id: str) -> bool:
    return bool(get_domain(connection, machine_id).isActive())


def shutdown(connection: libvirt.virConnect, machine_id: str) -> None:
    """Ask the guest to turn off, by its agent or, when that does not answer, by the power button: libvirt tries both in
    turn."""
    domain = get_domain(connection, machine_id)
    with ignore_if(lambda: not domain.isActive()):
        domain.shutdown()


def power_off(connection: libvirt.virConnect, machine_id: str) -> None:
    domain = get_domain(connection, machine_id)
    with ignore_if(lambda: not domain.isActive()):
        domain.destroy()


def restart(connection: libvirt.virConnect, machine_id: str) -> None:
    get_domain(connection, machine_id).reboot()


def reset(connection: libvirt.virConnect, machine_id: str) -> None:
    get_domain(connection, machine_id).reset()


def suspend(connection: libvirt.virConnect, machine_id: str) -> None:
    get_domain(connection, machine_id).suspend()


def resume(connection: libvirt.virConnect, machine_id: str) -> None:
    domain = get_domain(connection, machine_id)
    with ignore_if(lambda: domain.state()[0] == libvirt.VIR_DOMAIN_RUNNING):
        domain.resume()


def delete(connection: libvirt.virConnect, machine_id: str) -> set[str]:
    """Delete the machine; return the MACs of its NICs."""
    macs: set[str] = set()
    with ignore_missing():
        domain = get_domain(connection, machine_id)
        macs, name = nic_devices.list_macs(domain), domain.name()
        power_off(connection, machine_id)
        domain.undefineFlags(firmware.UNDEFINE_FLAGS)
        firmware.delete_state(connection, machine_id, name)
        firewall.delete_filters(connection, macs)
    return macs


@contextlib.contextmanager
def ignore_if(is_satisfied: Callable[[], Any]) -> Iterator[None]:
    """Ignore libvirt's refusal to bring a machine into the state that it is already in."""
    try:
        yield
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_OPERATION_INVALID or not is_satisfied():
            raise
