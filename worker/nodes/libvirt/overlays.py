"""Overlays: a running machine writes beside its disk, and the changes can be merged or discarded.

An overlay is a volume in the disk's pool with a name derived from the disk's. While it exists the machine uses its disk
through it, also after being defined again, so an interruption between two steps never loses written data.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping

import libvirt
from lxml import etree
from lxml.builder import E

from panel.core.messages import message
from worker.nodes.base import Disk, NotOnNode, Progress, Refused, make_overlay_name
from worker.nodes.libvirt import pools, saved_state, xml
from worker.nodes.libvirt.errors import ignore_missing
from worker.nodes.libvirt.machines import get_domain, power_off

COMMIT_POLL_INTERVAL_SECONDS = 0.05
OVERLAY_SNAPSHOT_FLAGS = (
    libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_DISK_ONLY
    | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_ATOMIC
    | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_NO_METADATA
    | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REUSE_EXT
)
DEFINITION_XML_FLAGS = libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE
COMMIT_FLAGS = libvirt.VIR_DOMAIN_BLOCK_COMMIT_ACTIVE | libvirt.VIR_DOMAIN_BLOCK_COMMIT_SHALLOW


def find_overlay(connection: libvirt.virConnect, disk_pool: str, disk_name: str) -> libvirt.virStorageVol | None:
    """Return the overlay's volume, or None."""
    volume_pool = connection.storagePoolLookupByName(disk_pool)
    return pools.find_or_none(volume_pool.storageVolLookupByName, make_overlay_name(disk_name))


def create_overlays(connection: libvirt.virConnect, machine_id: str, disks: list[Disk]) -> None:
    domain = get_domain(connection, machine_id)
    if not domain.isActive():
        raise Refused(message("The machine is off."), f"machine {machine_id}")
    used, requested = list_disk_targets(domain), {}
    for disk in disks:
        volume, overlay = pools.get_volume(connection, disk), find_overlay(connection, disk.pool, disk.name)
        if overlay is not None and overlay.path() in used:
            continue
        if volume.path() not in used:
            raise NotOnNode(message("The machine does not have this disk."), f"{volume.path()} in machine {machine_id}")
        requested[used[volume.path()]] = disk, volume
    created = {}
    try:
        for target, (disk, volume) in requested.items():
            description = xml.build_qcow2_xml(make_overlay_name(disk.name), volume.info()[1], volume.path())
            volume_pool = connection.storagePoolLookupByName(disk.pool)
            created[target] = pools.create_volume(volume_pool, make_overlay_name(disk.name), description)
        if created:
            switch_to_overlays(domain, used, {target: volume.path() for target, volume in created.items()})
    except libvirt.libvirtError:
        used = list_disk_targets(domain)
        for volume in created.values():
            if volume.path() not in used:
                with ignore_missing():
                    volume.delete()
        raise


def switch_to_overlays(domain: libvirt.virDomain, used: Mapping[str, str], overlays: dict[str, str]) -> None:
    """Switch the machine to the overlays, with the guest's file systems frozen if its agent answers; else the disks are
    as after a power failure."""
    switched = [
        E.disk(E.driver(type="qcow2"), E.source(file=path), name=target, snapshot="external")
        for target, path in overlays.items()
    ]
    unchanged = [E.disk(name=target, snapshot="no") for target in used.values() if target not in overlays]
    description = xml.to_text(E.domainsnapshot(E.disks(*switched, *unchanged)))
    try:
        domain.snapshotCreateXML(description, OVERLAY_SNAPSHOT_FLAGS | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_QUIESCE)
    except libvirt.libvirtError:
        domain.snapshotCreateXML(description, OVERLAY_SNAPSHOT_FLAGS)


def commit_overlay(connection: libvirt.virConnect, machine_id: str, pool: str, name: str, progress: Progress) -> None:
    volume = find_overlay(connection, pool, name)
    if volume is None:
        return
    domain = get_domain(connection, machine_id)
    saved_state.ensure_absent(domain)
    target = list_disk_targets(domain).get(volume.path())
    if target is not None:
        with paused_if_off(connection, domain):
            run_block_commit(domain, target, progress)
    volume.delete()


@contextlib.contextmanager
def paused_if_off(connection: libvirt.virConnect, domain: libvirt.virDomain) -> Iterator[None]:
    """Start a machine that is off, paused, for the duration of the block: QEMU can merge only while it runs."""
    if domain.isActive():
        yield
        return
    domain.createWithFlags(libvirt.VIR_DOMAIN_START_PAUSED)
    try:
        yield
    finally:
        power_off(connection, domain.UUIDString())


def run_block_commit(domain: libvirt.virDomain, target: str, progress: Progress) -> None:
    """Merge the overlay, or continue a merge that an earlier call started."""
    if not domain.blockJobInfo(target):
        domain.blockCommit(target, None, None, 0, COMMIT_FLAGS)
    try:
        while not is_commit_ready(domain, target):
            job = domain.blockJobInfo(target)
            if not job:
                raise Refused(
                    message("The changes could not be written into the disk."), f"the block job of {target} ended"
                )
            progress(job["cur"], max(job["end"], job["cur"]))
            time.sleep(COMMIT_POLL_INTERVAL_SECONDS)
        domain.blockJobAbort(target, libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)
    except BaseException:
        with contextlib.suppress(libvirt.libvirtError):
            domain.blockJobAbort(target)
        raise


def is_commit_ready(domain: libvirt.virDomain, target: str) -> bool:
    ready = etree.fromstring(domain.XMLDesc()).xpath("devices/disk[target/@dev=$dev]/mirror/@ready", dev=target)
    return ready == ["yes"]


def discard_overlay(connection: libvirt.virConnect, machine_id: str, pool: str, name: str) -> None:
    volume = find_overlay(connection, pool, name)
    if volume is None:
        return
    domain = get_domain(connection, machine_id)
    if domain.isActive():
        raise Refused(message("The machine is on."), f"machine {machine_id}")
    saved_state.delete(connection, machine_id)
    path = connection.storagePoolLookupByName(pool).storageVolLookupByName(name).path()
    description = etree.fromstring(domain.XMLDesc(DEFINITION_XML_FLAGS))
    for disk in description.xpath("devices/disk[source/@file=$file]", file=volume.path()):
        disk.find("source").set("file", path)
        for chain in disk.findall("backingStore"):  # written by snapshots; the disk would be opened twice
            disk.remove(chain)
    connection.defineXML(xml.to_text(description))
    volume.delete()


def list_disk_targets(domain: libvirt.virDomain) -> dict[str, str]:
    """Return file → target (`vda`) of the disks in use, or used at the next start. Empty drives have their target as
    the key."""
    targets = {}
    for disk in etree.fromstring(domain.XMLDesc()).iterfind("devices/disk"):
        source, target = disk.find("source"), disk.find("target").get("dev")
        targets[target if source is None else source.get("file")] = target
    return targets
