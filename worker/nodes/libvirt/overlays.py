"""Overlays: a running machine writes beside its disk, and what it wrote can be kept or given up.

An overlay is a volume of the disk's pool under a name that follows from the disk's. While it is there the machine uses
its disk through it, whoever defines the machine anew: so nothing that happens between two steps loses what was written.
"""

import contextlib
import time

import libvirt
from lxml import etree
from lxml.builder import E

from worker.nodes.base import Disk, Missing, Progress, Refused, overlay_name
from worker.nodes.libvirt import pools, xml
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


def find_overlay(connection, disk_pool: str, disk_name: str):
    """The volume, or None."""
    place = connection.storagePoolLookupByName(disk_pool)
    return pools.find_or_none(place.storageVolLookupByName, overlay_name(disk_name))


def create_overlays(connection, machine_id: str, disks: list[Disk]):
    domain = get_domain(connection, machine_id)
    if not domain.isActive():
        raise Refused("The machine is off.", f"machine {machine_id}")
    used, wanted = disk_targets(domain), {}
    for disk in disks:
        volume, there = pools.get_volume(connection, disk), find_overlay(connection, disk.pool, disk.name)
        if there is not None and there.path() in used:
            continue
        if volume.path() not in used:
            raise Missing("The machine does not have this disk.", f"{volume.path()} in machine {machine_id}")
        wanted[used[volume.path()]] = disk, volume
    made = {}
    try:
        for target, (disk, volume) in wanted.items():
            description = xml.qcow2(overlay_name(disk.name), volume.info()[1], volume.path())
            place = connection.storagePoolLookupByName(disk.pool)
            made[target] = pools.create_volume(place, overlay_name(disk.name), description)
        if made:
            switch_to_overlays(domain, used, {target: volume.path() for target, volume in made.items()})
    except libvirt.libvirtError:
        used = disk_targets(domain)
        for volume in made.values():
            if volume.path() not in used:
                with ignore_missing():
                    volume.delete()
        raise


def switch_to_overlays(domain, used, overlays: dict[str, str]):
    """With the guest's file systems at rest where its agent can bring that about; else as a power failure would."""
    taken = [
        E.disk(E.driver(type="qcow2"), E.source(file=path), name=target, snapshot="external")
        for target, path in overlays.items()
    ]
    rest = [E.disk(name=target, snapshot="no") for target in used.values() if target not in overlays]
    description = xml.to_text(E.domainsnapshot(E.disks(*taken, *rest)))
    try:
        domain.snapshotCreateXML(description, OVERLAY_SNAPSHOT_FLAGS | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_QUIESCE)
    except libvirt.libvirtError:
        domain.snapshotCreateXML(description, OVERLAY_SNAPSHOT_FLAGS)


def commit_overlay(connection, machine_id: str, pool: str, name: str, moved: Progress):
    volume = find_overlay(connection, pool, name)
    if volume is None:
        return
    domain = get_domain(connection, machine_id)
    target = disk_targets(domain).get(volume.path())
    if target is not None:
        with paused_if_off(connection, domain):
            run_block_commit(domain, target, moved)
    volume.delete()


@contextlib.contextmanager
def paused_if_off(connection, domain):
    """Only a machine that is on can merge: one that is off is, without its guest noticing, for as long as it takes."""
    if domain.isActive():
        yield
        return
    domain.createWithFlags(libvirt.VIR_DOMAIN_START_PAUSED)
    try:
        yield
    finally:
        power_off(connection, domain.UUIDString())


def run_block_commit(domain, target: str, moved: Progress):
    """Goes on with the merging that an earlier call began."""
    if not domain.blockJobInfo(target):
        domain.blockCommit(target, None, None, 0, COMMIT_FLAGS)
    try:
        while not is_commit_ready(domain, target):
            job = domain.blockJobInfo(target)
            if not job:
                raise Refused("The changes could not be written into the disk.", f"the block job of {target} ended")
            moved(job["cur"], max(job["end"], job["cur"]))
            time.sleep(COMMIT_POLL_INTERVAL_SECONDS)
        domain.blockJobAbort(target, libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)
    except BaseException:
        with contextlib.suppress(libvirt.libvirtError):
            domain.blockJobAbort(target)
        raise


def is_commit_ready(domain, target: str) -> bool:
    found = etree.fromstring(domain.XMLDesc()).xpath("devices/disk[target/@dev=$dev]/mirror/@ready", dev=target)
    return found == ["yes"]


def discard_overlay(connection, machine_id: str, pool: str, name: str):
    volume = find_overlay(connection, pool, name)
    if volume is None:
        return
    domain = get_domain(connection, machine_id)
    if domain.isActive():
        raise Refused("The machine is on.", f"machine {machine_id}")
    path = connection.storagePoolLookupByName(pool).storageVolLookupByName(name).path()
    description = etree.fromstring(domain.XMLDesc(DEFINITION_XML_FLAGS))
    for disk in description.xpath("devices/disk[source/@file=$file]", file=volume.path()):
        disk.find("source").set("file", path)
        for chain in disk.findall("backingStore"):  # spelled out after a snapshot: the disk would be opened twice
            disk.remove(chain)
    connection.defineXML(xml.to_text(description))
    volume.delete()


def disk_targets(domain) -> dict[str, str]:
    """The disks that the machine uses now, or will use when it is started: file to `vda`. Empty drives have a key of
    their own."""
    found = {}
    for disk in etree.fromstring(domain.XMLDesc()).iterfind("devices/disk"):
        source, target = disk.find("source"), disk.find("target").get("dev")
        found[target if source is None else source.get("file")] = target
    return found
