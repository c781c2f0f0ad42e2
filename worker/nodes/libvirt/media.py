"""Optical media, and whole disks on their way out of a node."""

import time

import libvirt
from lxml import etree

from worker.nodes.base import Disk, Progress
from worker.nodes.libvirt import chipset, xml
from worker.nodes.libvirt.errors import absent_is_fine
from worker.nodes.libvirt.machines import find
from worker.nodes.libvirt.pools import CHUNK, create, delete_disk, find_disk, lookup, upload

LOOK_EVERY = 5.0
"""Seconds between two looks at a copy that grows."""


def watched(progress: Progress | None):
    """A `progress` for a transfer, and a function that tells when it last moved."""
    last = time.monotonic()

    def moved(done, total):
        nonlocal last
        last = time.monotonic()
        if progress:
            progress(done, total)

    return moved, lambda: last


class Growth:
    """Tells when a copy that the node makes by itself last grew, for who waits for it; and the progress with it."""

    def __init__(self, look, progress: Progress | None):
        self.look, self.progress = look, progress
        self.bytes, self.last, self.next = -1, time.monotonic(), 0.0

    def __call__(self) -> float:
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + LOOK_EVERY
            written = self.look()
            if written != self.bytes:
                self.bytes, self.last = written, time.monotonic()
            if self.progress:
                self.progress(max(0, written), 0)
        return self.last


def put(connection, pool: str, name: str, source, size: int, moved: Progress) -> Disk:
    place = connection.storagePoolLookupByName(pool)
    upload(create(place, name, xml.raw(name, size)), source, size, moved)
    return Disk(pool, name, size)


def change(connection, machine_id: str, slot: str, disk: Disk | None):
    """Forced, because a guest that has mounted the medium locks its tray and would be asked for seconds in vain."""
    machine = find(connection, machine_id)
    path = find_disk(connection, disk).path() if disk else None
    stored = machine.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    forced = libvirt.VIR_DOMAIN_DEVICE_MODIFY_FORCE
    if machine.isActive():
        machine.updateDeviceFlags(drive(machine.XMLDesc(), slot, path), libvirt.VIR_DOMAIN_AFFECT_LIVE | forced)
    machine.updateDeviceFlags(drive(stored, slot, path), libvirt.VIR_DOMAIN_AFFECT_CONFIG | forced)


DRIVES = "devices/disk[@device='cdrom'][target/@dev=$ide or target/@dev=$scsi]"


def drive(description: str, slot: str, path: str | None) -> str:
    """The optical drive as the machine has it, with another medium."""
    ide, scsi = chipset.drive_names(slot)
    [found] = etree.fromstring(description).xpath(DRIVES, ide=ide, scsi=scsi)
    for part in ("source", "backingStore"):
        for element in found.findall(part):
            found.remove(element)
    if path:
        found.insert(0, etree.Element("source", file=path))
    return etree.tostring(found, encoding="unicode")


def copy(connection, source: Disk, target: Disk):
    """libvirt has qemu-img write a new volume from the old one with everything that it is based on."""
    place, volume = connection.storagePoolLookupByName(target.pool), find_disk(connection, source)
    delete_disk(connection, target.pool, target.name)
    try:
        place.createXMLFrom(xml.qcow2(target.name, volume.info()[1]), volume)
    except libvirt.libvirtError:
        with absent_is_fine():
            delete_disk(connection, target.pool, target.name)
        raise


def written(connection, disk: Disk) -> int:
    """Bytes of the file so far; -1 while it is not there."""
    found = lookup(connection.storagePoolLookupByName(disk.pool).storageVolLookupByName, disk.name)
    return found.info()[2] if found is not None else -1


def read(connection, disk: Disk, target, moved: Progress):
    volume = find_disk(connection, disk)
    total = int(etree.fromstring(volume.XMLDesc()).findtext("physical") or volume.info()[2])
    stream = connection.newStream()
    volume.download(stream, 0, 0)
    done = 0
    try:
        while portion := stream.recv(CHUNK):
            target.write(portion)
            done += len(portion)
            moved(done, max(total, done))
        stream.finish()
    except BaseException:
        stream.abort()
        raise
