"""Attaching and detaching disks, also while the machine runs."""

import time

import libvirt
from lxml import etree

from panel.core.messages import message
from worker.nodes.base import Disk, Refused
from worker.nodes.libvirt import checkpoints, pools, saved_state, xml
from worker.nodes.libvirt.errors import repeat_when_off
from worker.nodes.libvirt.machines import NO_DIRECT_IO, get_domain

DETACH_TIMEOUT_SECONDS = 30
"""Seconds that a guest has to release a disk."""
DETACH_POLL_INTERVAL_SECONDS = 0.1

LIVE_FLAG, CONFIG_FLAG = libvirt.VIR_DOMAIN_AFFECT_LIVE, libvirt.VIR_DOMAIN_AFFECT_CONFIG


def attach(connection: libvirt.virConnect, machine_id: str, disk: Disk) -> None:
    domain, path = get_domain(connection, machine_id), pools.get_volume(connection, disk).path()
    saved_state.ensure_absent(domain)
    repeat_when_off(domain, lambda: attach_to_views(domain, disk, path))


def attach_to_views(domain: libvirt.virDomain, disk: Disk, path: str) -> None:
    for view in list_affected_views(domain):
        drives = map_drives_by_file(domain, view)
        if path not in drives:
            used = {drive.find("target").get("dev") for drive in drives.values()}
            number = next(n for n in range(1, 1000) if xml.make_disk_name(n) not in used)
            attached = xml.build_disk(number, path, {}, disk.name, has_iothread(domain, view))
            attach_device(domain, attached, view)


def attach_device(domain: libvirt.virDomain, attached: etree._Element, view: int) -> None:
    try:
        domain.attachDeviceFlags(xml.to_text(attached), view)
    except libvirt.libvirtError as error:
        if NO_DIRECT_IO not in str(error):
            raise
        attached.find("driver").attrib.update(xml.PAGE_CACHE)
        domain.attachDeviceFlags(xml.to_text(attached), view)


def has_iothread(domain: libvirt.virDomain, view: int) -> bool:
    """Return whether the machine has an I/O thread. It depends on the release and the node that defined it."""
    return etree.fromstring(read_domain_xml(domain, view)).findtext("iothreads", "0") != "0"


def detach(connection: libvirt.virConnect, machine_id: str, pool: str, name: str) -> None:
    domain = get_domain(connection, machine_id)
    saved_state.ensure_absent(domain)
    path = connection.storagePoolLookupByName(pool).storageVolLookupByName(name).path()
    repeat_when_off(domain, lambda: detach_from_views(domain, path))


def detach_from_views(domain: libvirt.virDomain, path: str) -> None:
    for view in list_affected_views(domain):
        drive = map_drives_by_file(domain, view).get(path)
        if drive is not None:
            if view == LIVE_FLAG:
                checkpoints.delete_disk_bitmaps(domain, path)
            domain.detachDeviceFlags(xml.to_text(drive), view)
        if view == LIVE_FLAG:
            wait_until_detached(domain, path)


def wait_until_detached(domain: libvirt.virDomain, path: str) -> None:
    """Wait until the guest has released the disk: detaching is only a request to it."""
    deadline = time.monotonic() + DETACH_TIMEOUT_SECONDS
    while domain.isActive() and path in map_drives_by_file(domain, LIVE_FLAG):
        if time.monotonic() > deadline:
            raise Refused(message("The guest does not release the disk. Unmount it first."), f"{path} is still there")
        time.sleep(DETACH_POLL_INTERVAL_SECONDS)


def list_affected_views(domain: libvirt.virDomain) -> tuple[int, ...]:
    """Return the views to change: the running machine and its definition, separately, because the disk's target may
    differ."""
    return (LIVE_FLAG, CONFIG_FLAG) if domain.isActive() else (CONFIG_FLAG,)


def map_drives_by_file(domain: libvirt.virDomain, view: int) -> dict[str, etree._Element]:
    """Return the machine's drives by file; empty ones by their target."""
    drives = {}
    for drive in etree.fromstring(read_domain_xml(domain, view)).iterfind("devices/disk"):
        source = drive.find("source")
        drives[drive.find("target").get("dev") if source is None else source.get("file")] = drive
    return drives


def read_domain_xml(domain: libvirt.virDomain, view: int) -> str:
    return domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE if view == CONFIG_FLAG else 0)
