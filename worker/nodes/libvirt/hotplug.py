"""Disks that come and go, also while the machine runs."""

import time

import libvirt
from lxml import etree

from worker.nodes.base import Disk, Refused
from worker.nodes.libvirt import pools, xml
from worker.nodes.libvirt.errors import repeat_when_off
from worker.nodes.libvirt.machines import NO_DIRECT_IO, find

PATIENCE = 30
"""Seconds that a guest has to let a disk go."""
LOOK = 0.1

LIVE, KEPT = libvirt.VIR_DOMAIN_AFFECT_LIVE, libvirt.VIR_DOMAIN_AFFECT_CONFIG


def attach(connection, machine_id: str, disk: Disk):
    domain, path = find(connection, machine_id), pools.find_disk(connection, disk).path()
    repeat_when_off(domain, lambda: add(domain, disk, path))


def add(domain, disk: Disk, path: str):
    for view in views(domain):
        found = devices(domain, view)
        if path not in found:
            used = {each.find("target").get("dev") for each in found.values()}
            number = next(n for n in range(1, 1000) if xml.disk_name(n) not in used)
            attached = xml.disk(number, path, {}, disk.name, has_iothread(domain, view))
            attach_to(domain, attached, view)


def attach_to(domain, attached, view: int):
    try:
        domain.attachDeviceFlags(xml.text(attached), view)
    except libvirt.libvirtError as error:
        if NO_DIRECT_IO not in str(error):
            raise
        attached.find("driver").attrib.update(xml.PAGE_CACHE)
        domain.attachDeviceFlags(xml.text(attached), view)


def has_iothread(domain, view: int) -> bool:
    """Machines that were defined by earlier releases have none."""
    return etree.fromstring(description(domain, view)).findtext("iothreads", "0") != "0"


def detach(connection, machine_id: str, pool: str, name: str):
    domain = find(connection, machine_id)
    path = connection.storagePoolLookupByName(pool).storageVolLookupByName(name).path()
    repeat_when_off(domain, lambda: remove(domain, path))


def remove(domain, path: str):
    for view in views(domain):
        found = devices(domain, view).get(path)
        if found is not None:
            domain.detachDeviceFlags(xml.text(found), view)
        if view == LIVE:
            let_go(domain, path)


def let_go(domain, path: str):
    """Taking a disk away is a request to the guest."""
    until = time.monotonic() + PATIENCE
    while domain.isActive() and path in devices(domain, LIVE):
        if time.monotonic() > until:
            raise Refused("The guest does not let the disk go. Unmount it first.", f"{path} is still there")
        time.sleep(LOOK)


def views(domain) -> tuple[int, ...]:
    """What runs and what is kept are changed one after the other: a disk may have another letter in each."""
    return (LIVE, KEPT) if domain.isActive() else (KEPT,)


def devices(domain, view: int) -> dict[str, etree._Element]:
    """The machine's drives by file; empty ones by their letter."""
    found = {}
    for each in etree.fromstring(description(domain, view)).iterfind("devices/disk"):
        source = each.find("source")
        found[each.find("target").get("dev") if source is None else source.get("file")] = each
    return found


def description(domain, view: int) -> str:
    return domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE if view == KEPT else 0)
