"""Moving a machine, with its memory and disks, to another libvirt node while its guest runs.

QEMU sends the bytes from host to host; this process connects to both daemons and controls them. If it dies meanwhile,
the daemons end the attempt by themselves: the guest continues at the source, or at the target once that has taken over.
"""

import contextlib
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Self

import libvirt
from lxml import etree

from worker.nodes.base import Disk, Machine, Progress
from worker.nodes.libvirt import checkpoints, chipset, firewall, firmware, nic_devices, nvram, saved_state, xml
from worker.nodes.libvirt.machines import get_domain
from worker.nodes.libvirt.pools import create_volume, delete_disk, get_volume
from worker.nodes.libvirt.xml import build_raw_volume_xml

MIGRATION_POLL_INTERVAL_SECONDS = 0.5
"""Seconds between two polls of the progress."""

MIGRATABLE_XML_FLAGS = libvirt.VIR_DOMAIN_XML_SECURE | libvirt.VIR_DOMAIN_XML_MIGRATABLE
DEFINITION_XML_FLAGS = libvirt.VIR_DOMAIN_XML_SECURE | libvirt.VIR_DOMAIN_XML_INACTIVE


def migrate(connection: libvirt.virConnect, target: libvirt.virConnect, machine: Machine, limits: bool) -> None:
    """Return when the machine is on the target. A machine that is off is started paused, moved, and turned off again.
    `limits` says whether the target can limit speeds."""
    domain = get_domain(connection, machine.id)
    saved_state.ensure_absent(domain)
    running = bool(domain.isActive())
    if not running:
        domain.createWithFlags(libvirt.VIR_DOMAIN_START_PAUSED)
    checkpoints.delete(domain)  # their bitmaps are not moved
    paths = [get_volume(target, disk).path() for disk in machine.disks]
    media = {
        drive: get_volume(target, medium).path()
        for slot, medium in machine.media.items()
        for drive in chipset.get_drive_names(slot)
    }
    devices = list_disk_devices(domain)
    bases_match = all(
        has_same_base(connection, target, device, path) for device, path in zip(devices, paths, strict=True)
    )
    flags = (
        libvirt.VIR_MIGRATE_PERSIST_DEST
        | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
        | (libvirt.VIR_MIGRATE_NON_SHARED_INC if bases_match else libvirt.VIR_MIGRATE_NON_SHARED_DISK)
        | (libvirt.VIR_MIGRATE_LIVE | libvirt.VIR_MIGRATE_AUTO_CONVERGE if running else 0)
    )
    parameters = {
        libvirt.VIR_MIGRATE_PARAM_DEST_XML: build_target_xml(
            domain.XMLDesc(MIGRATABLE_XML_FLAGS), machine, paths, media, limits
        ),
        libvirt.VIR_MIGRATE_PARAM_PERSIST_XML: build_target_xml(
            domain.XMLDesc(DEFINITION_XML_FLAGS), machine, paths, media, limits
        ),
        libvirt.VIR_MIGRATE_PARAM_MIGRATE_DISKS: [device.find("target").get("dev") for device in devices],
    }
    filtered_macs = (
        nic_devices.list_macs(domain) if etree.fromstring(domain.XMLDesc()).find(".//filterref") is not None else ()
    )
    if filtered_macs:
        firewall.define_filters(target, machine.nics)
    try:
        if not running:
            nvram.copy_nvram(connection, target, domain, copy_volume_bytes)
        moved_domain = domain.migrate3(target, parameters, flags)
    except BaseException:
        with contextlib.suppress(libvirt.libvirtError):
            firewall.delete_filters(target, filtered_macs)
        if not running:
            with contextlib.suppress(libvirt.libvirtError):
                domain.destroy()
        with contextlib.suppress(libvirt.libvirtError):
            delete_partial_state(target, machine.id, machine.name)
        raise
    if not running:
        moved_domain.destroy()
    with contextlib.suppress(libvirt.libvirtError):
        firewall.delete_filters(connection, filtered_macs)
    firmware.delete_state(connection, machine.id, machine.name)


def list_disk_devices(domain: libvirt.virDomain) -> list[etree._Element]:
    description = etree.fromstring(domain.XMLDesc(0))
    return description.findall("devices/disk[@device='disk']")


def has_same_base(
    connection: libvirt.virConnect, target: libvirt.virConnect, device: etree._Element, path: str
) -> bool:
    """Return whether both disks are based on an image of the same name, hence of the same bytes: then the image's part
    need not be moved."""
    base_name = find_base_image_name(connection.storageVolLookupByPath(device.find("source").get("file")))
    return base_name is not None and base_name == find_base_image_name(target.storageVolLookupByPath(path))


def find_base_image_name(volume: libvirt.virStorageVol) -> str | None:
    path = etree.fromstring(volume.XMLDesc()).findtext("backingStore/path")
    return path and path.rpartition("/")[2]


def build_target_xml(
    description: str, machine: Machine, paths: Iterable[str], media: Mapping[str, str], limits: bool
) -> str:
    """Return the definition with the target's files and networks, and with speed limits if it supports them."""
    tree = etree.fromstring(description)
    for device, path in zip(tree.findall("devices/disk[@device='disk']"), paths, strict=True):
        device.find("source").set("file", path)
        for chain in device.findall("backingStore"):
            device.remove(chain)
    for device in tree.findall("devices/disk[@device='cdrom']"):
        source, medium_path = device.find("source"), media.get(device.find("target").get("dev"))
        if source is not None and medium_path:
            source.set("file", medium_path)
        elif source is not None:
            device.remove(source)
    for device, nic in zip(tree.findall("devices/interface"), machine.nics, strict=True):
        source = device.find("source")
        if source.get("network") != nic.network:
            source.attrib.clear()
            source.set("network", nic.network)
        for bandwidth in device.findall("bandwidth"):
            device.remove(bandwidth)
        device.extend(xml.build_bandwidth(nic) if limits else [])
    return etree.tostring(tree).decode()


class MigrationMonitor:
    """Polls a migration's progress over a connection of its own, and aborts it when `progress` raises."""

    def __init__(self, connection: libvirt.virConnect, machine_id: str, progress: Progress | None) -> None:
        self.connection, self.machine_id, self.progress = connection, machine_id, progress
        self.last_answer_at = time.monotonic()
        self.stopped_by: BaseException | None = None
        self.finished = threading.Event()
        self.thread = threading.Thread(target=self.poll, name="migration", daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.finished.set()
        self.thread.join()

    def poll(self) -> None:
        while not self.finished.wait(MIGRATION_POLL_INTERVAL_SECONDS):
            with contextlib.suppress(libvirt.libvirtError):
                domain = get_domain(self.connection, self.machine_id)
                job = domain.jobStats()
                self.last_answer_at = time.monotonic()
                if job.get("data_total"):
                    self.report_progress(domain, job["data_processed"], job["data_total"])

    def report_progress(self, domain: libvirt.virDomain, done: int, total: int) -> None:
        try:
            if self.progress:
                self.progress(min(done, total), total)
        except BaseException as error:
            self.stopped_by = error
            domain.abortJob()


def copy_media(connection: libvirt.virConnect, target: libvirt.virConnect, medium: Disk, target_disk: Disk) -> None:
    """Copy a small read-only medium, through this process."""
    volume = get_volume(connection, medium)
    size = volume.info()[1]
    copy = create_volume(
        target.storagePoolLookupByName(target_disk.pool), target_disk.name, build_raw_volume_xml(target_disk.name, size)
    )
    copy_volume_bytes(volume, copy, size)


def copy_volume_bytes(volume: libvirt.virStorageVol, target: libvirt.virStorageVol, size: int) -> None:
    """Copy from volume to volume, through this process. After failure the second is deleted."""
    source_stream, target_stream = volume.connect().newStream(), target.connect().newStream()
    try:
        volume.download(source_stream, 0, size)
        target.upload(target_stream, 0, size)
        source_stream.recvAll(lambda _, data, __: send_all(target_stream, data), None)
        source_stream.finish()
        target_stream.finish()
    except BaseException:
        for stream in (source_stream, target_stream):
            with contextlib.suppress(libvirt.libvirtError):
                stream.abort()
        with contextlib.suppress(libvirt.libvirtError):
            target.delete()
        raise


def send_all(stream: libvirt.virStream, data: bytes) -> int:
    remaining = data
    while remaining:
        remaining = remaining[stream.send(remaining) :]
    return len(data)


def clean_up_target(
    connection: libvirt.virConnect, machine_id: str, disks: Iterable[tuple[str, str]], name: str = ""
) -> None:
    """Delete the disks of a machine whose move did not complete. When the node has the machine, its disks stay."""
    if delete_partial_state(connection, machine_id, name or machine_id):
        for pool, disk in disks:
            delete_disk(connection, pool, disk)


def delete_partial_state(connection: libvirt.virConnect, machine_id: str, name: str) -> bool:
    """Delete what arrived of a machine's TPM and firmware state, unless the node has the machine; return True if it was
    deleted."""
    try:
        get_domain(connection, machine_id)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
            raise
        firmware.delete_state(connection, machine_id, name)
        return True
    return False
