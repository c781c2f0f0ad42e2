"""Optical media, and whole disks on their way out of a node."""

import time

import libvirt
from lxml import etree

from worker.nodes.base import Disk, Progress
from worker.nodes.libvirt import chipset, xml
from worker.nodes.libvirt.errors import ignore_missing
from worker.nodes.libvirt.machines import get_domain
from worker.nodes.libvirt.pools import UPLOAD_CHUNK_BYTES, create_volume, delete_disk, find_or_none, get_volume, upload

COPY_POLL_INTERVAL_SECONDS = 5.0
"""Seconds between two looks at a copy that grows."""


def track_progress(progress: Progress | None):
    """A `progress` for a transfer, and a function that tells when it last moved."""
    last = time.monotonic()

    def moved(done, total):
        nonlocal last
        last = time.monotonic()
        if progress:
            progress(done, total)

    return moved, lambda: last


class CopyProgress:
    """Tells when a copy that the node makes by itself last grew, for who waits for it; and the progress with it."""

    def __init__(self, look, progress: Progress | None):
        self.look, self.progress = look, progress
        self.bytes, self.last, self.next = -1, time.monotonic(), 0.0

    def __call__(self) -> float:
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + COPY_POLL_INTERVAL_SECONDS
            written = self.look()
            if written != self.bytes:
                self.bytes, self.last = written, time.monotonic()
            if self.progress:
                self.progress(max(0, written), 0)
        return self.last


def upload_media(connection, pool: str, name: str, source, size: int, moved: Progress) -> Disk:
    place = connection.storagePoolLookupByName(pool)
    upload(create_volume(place, name, xml.raw(name, size)), source, size, moved)
    return Disk(pool, name, size)


def change_media(connection, machine_id: str, slot: str, disk: Disk | None):
    """Forced, because a guest that has mounted the medium locks its tray and would be asked for seconds in vain."""
    machine = get_domain(connection, machine_id)
    path = get_volume(connection, disk).path() if disk else None
    stored = machine.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    forced = libvirt.VIR_DOMAIN_DEVICE_MODIFY_FORCE
    if machine.isActive():
        machine.updateDeviceFlags(drive_xml(machine.XMLDesc(), slot, path), libvirt.VIR_DOMAIN_AFFECT_LIVE | forced)
    machine.updateDeviceFlags(drive_xml(stored, slot, path), libvirt.VIR_DOMAIN_AFFECT_CONFIG | forced)


DRIVE_XPATH = "devices/disk[@device='cdrom'][target/@dev=$ide or target/@dev=$scsi]"


def drive_xml(description: str, slot: str, path: str | None) -> str:
    """The optical drive as the machine has it, with another medium."""
    ide, scsi = chipset.drive_names(slot)
    [found] = etree.fromstring(description).xpath(DRIVE_XPATH, ide=ide, scsi=scsi)
    for part in ("source", "backingStore"):
        for element in found.findall(part):
            found.remove(element)
    if path:
        found.insert(0, etree.Element("source", file=path))
    return etree.tostring(found, encoding="unicode")


def copy_disk(connection, source: Disk, target: Disk):
    """libvirt has qemu-img write a new volume from the old one with everything that it is based on."""
    place, volume = connection.storagePoolLookupByName(target.pool), get_volume(connection, source)
    delete_disk(connection, target.pool, target.name)
    try:
        place.createXMLFrom(xml.qcow2(target.name, volume.info()[1]), volume)
    except libvirt.libvirtError:
        with ignore_missing():
            delete_disk(connection, target.pool, target.name)
        raise


def copied_bytes(connection, disk: Disk) -> int:
    """Bytes of the file so far; -1 while it is not there."""
    found = find_or_none(connection.storagePoolLookupByName(disk.pool).storageVolLookupByName, disk.name)
    return found.info()[2] if found is not None else -1


def read_disk(connection, disk: Disk, target, moved: Progress):
    volume = get_volume(connection, disk)
    total = int(etree.fromstring(volume.XMLDesc()).findtext("physical") or volume.info()[2])
    stream = connection.newStream()
    volume.download(stream, 0, 0)
    done = 0
    try:
        while portion := stream.recv(UPLOAD_CHUNK_BYTES):
            target.write(portion)
            done += len(portion)
            moved(done, max(total, done))
        stream.finish()
    except BaseException:
        stream.abort()
        raise
