"""Optical media, and copying, reading and writing whole disks."""

import time
from collections.abc import Callable

import libvirt
from lxml import etree

from panel.core.messages import message
from worker.nodes.base import Disk, DiskContent, Progress, Readable, Refused, Writable
from worker.nodes.libvirt import chipset, saved_state, xml
from worker.nodes.libvirt.errors import ignore_missing
from worker.nodes.libvirt.machines import get_domain
from worker.nodes.libvirt.pools import UPLOAD_CHUNK_BYTES, create_volume, delete_disk, find_or_none, get_volume, upload
from worker.nodes.libvirt.qcow2 import Qcow2File

COPY_POLL_INTERVAL_SECONDS = 5.0
"""Seconds between two polls of the size of a copy."""
KERNEL_FILE_MODE = "0644"
"""Permissions of a kernel's files. Machines share them, and libvirt makes them root's when one of the machines ends,
also while another one starts: it counts the users of a file only with `remember_owner` and extended attributes."""


def track_progress(progress: Progress | None) -> tuple[Progress, Callable[[], float]]:
    """Return a `progress` callback for a transfer, and a function that returns when it was last called (monotonic)."""
    last_report_at = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal last_report_at
        last_report_at = time.monotonic()
        if progress:
            progress(done, total)

    return report, lambda: last_report_at


class CopyProgress:
    """Polls the size of a copy that the node makes by itself: returns when it last grew (monotonic), and reports
    progress."""

    def __init__(self, get_size: Callable[[], int], progress: Progress | None) -> None:
        self.get_size, self.progress = get_size, progress
        self.written_bytes, self.last_growth_at, self.next_poll_at = -1, time.monotonic(), 0.0

    def __call__(self) -> float:
        if time.monotonic() >= self.next_poll_at:
            self.next_poll_at = time.monotonic() + COPY_POLL_INTERVAL_SECONDS
            written_bytes = self.get_size()
            if written_bytes != self.written_bytes:
                self.written_bytes, self.last_growth_at = written_bytes, time.monotonic()
            if self.progress:
                self.progress(max(0, written_bytes), 0)
        return self.last_growth_at


def upload_media(
    connection: libvirt.virConnect,
    pool: str,
    name: str,
    source: Readable,
    size: int,
    progress: Progress,
    is_kernel: bool,
) -> Disk:
    volume_pool = connection.storagePoolLookupByName(pool)
    description = xml.build_raw_volume_xml(name, size, KERNEL_FILE_MODE if is_kernel else "")
    upload(create_volume(volume_pool, name, description), source, size, progress)
    return Disk(pool, name, size)


def change_media(connection: libvirt.virConnect, machine_id: str, slot: str, disk: Disk | None) -> None:
    """Change the medium, by force: a guest that has mounted the medium locks its tray and would not open it."""
    machine = get_domain(connection, machine_id)
    saved_state.ensure_absent(machine)
    path = get_volume(connection, disk).path() if disk else None
    stored = machine.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    forced = libvirt.VIR_DOMAIN_DEVICE_MODIFY_FORCE
    if machine.isActive():
        machine.updateDeviceFlags(
            build_drive_xml(machine.XMLDesc(), slot, path), libvirt.VIR_DOMAIN_AFFECT_LIVE | forced
        )
    machine.updateDeviceFlags(build_drive_xml(stored, slot, path), libvirt.VIR_DOMAIN_AFFECT_CONFIG | forced)


DRIVE_XPATH = "devices/disk[@device='cdrom'][target/@dev=$ide or target/@dev=$scsi]"


def build_drive_xml(description: str, slot: str, path: str | None) -> str:
    """Return the machine's optical drive, with another medium."""
    ide, scsi = chipset.get_drive_names(slot)
    drives = etree.fromstring(description).xpath(DRIVE_XPATH, ide=ide, scsi=scsi)
    if not drives:
        raise Refused(message("The machine has no drive for this medium."), f"no drive for the slot {slot}")
    [drive] = drives
    for part in ("source", "backingStore"):
        for element in drive.findall(part):
            drive.remove(element)
    if path:
        drive.insert(0, etree.Element("source", file=path))
    return etree.tostring(drive, encoding="unicode")


def copy_disk(connection: libvirt.virConnect, source: Disk, target: Disk) -> None:
    """Copy a disk with all its base images into a new volume; libvirt runs qemu-img for it."""
    volume_pool, volume = connection.storagePoolLookupByName(target.pool), get_volume(connection, source)
    delete_disk(connection, target.pool, target.name)
    try:
        volume_pool.createXMLFrom(xml.build_qcow2_xml(target.name, volume.info()[1]), volume)
    except libvirt.libvirtError:
        with ignore_missing():
            delete_disk(connection, target.pool, target.name)
        raise


def get_copied_bytes(connection: libvirt.virConnect, disk: Disk) -> int:
    """Return the size of the file so far; -1 while it does not exist."""
    volume = find_or_none(connection.storagePoolLookupByName(disk.pool).storageVolLookupByName, disk.name)
    return volume.info()[2] if volume is not None else -1


def read_disk(connection: libvirt.virConnect, disk: Disk, target: Writable, progress: Progress) -> None:
    volume = get_volume(connection, disk)
    total = int(etree.fromstring(volume.XMLDesc()).findtext("physical") or volume.info()[2])
    stream = connection.newStream()
    volume.download(stream, 0, 0)
    done = 0
    try:
        while chunk := stream.recv(UPLOAD_CHUNK_BYTES):
            target.write(chunk)
            done += len(chunk)
            progress(done, max(total, done))
        stream.finish()
    except BaseException:
        stream.abort()
        raise


def write_disk(connection: libvirt.virConnect, disk: Disk, content: DiskContent, progress: Progress) -> None:
    """Create the disk as a qcow2 file, and fill it."""
    volume_pool = connection.storagePoolLookupByName(disk.pool)
    delete_disk(connection, disk.pool, disk.name)
    file = Qcow2File(content, disk.size)
    volume = create_volume(volume_pool, disk.name, xml.build_qcow2_xml(disk.name, 0))
    upload(volume, file, file.size, progress)
    if get_volume(connection, disk).info()[1] != disk.size:
        delete_disk(connection, disk.pool, disk.name)
        raise Refused(message("The disk was not written completely."), f"{disk.name} in pool {disk.pool}")
