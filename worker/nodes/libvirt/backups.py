"""Backup jobs in push mode: QEMU copies the disks as they were at one moment, or what has changed since a checkpoint,
into volumes beside the disks. libvirt's own connection carries their bytes, whatever it is made of.

QEMU can also serve a job's disks by NBD, which needs no volume. But a client that disconnects from a disk with an I/O
thread crashes the machine (Debian's QEMU 7.2.22, `nbd_blockdev_client_closed`).
"""

import contextlib
import time
from collections.abc import Collection, Iterable
from dataclasses import replace

import libvirt
from lxml import etree
from lxml.builder import E

from panel.core.messages import message
from worker.nodes.base import (
    BackupJob,
    Disk,
    NotOnNode,
    Progress,
    Refused,
    make_backup_name,
    make_overlay_name,
)
from worker.nodes.libvirt import checkpoints, media, pools, xml
from worker.nodes.libvirt.errors import ignore_missing
from worker.nodes.libvirt.machines import get_domain
from worker.nodes.libvirt.overlays import list_disk_targets
from worker.nodes.libvirt.snapshots import freeze_filesystems

JOB_END_TIMEOUT_SECONDS, JOB_POLL_INTERVAL_SECONDS = 30.0, 0.1


def run(
    connection: libvirt.virConnect,
    machine_id: str,
    disks: list[Disk],
    name: str,
    previous: str | None,
    progress: Progress,
    bytes_per_second: int,
    fully_read: Collection[str],
) -> BackupJob:
    """Run a job until the copies are complete. After failure the copies are deleted."""
    domain = get_domain(connection, machine_id)
    end(domain)
    checkpoints.delete_one(domain, name)  # that of an attempt whose worker was lost
    targets = find_targets(connection, domain, disks)
    excluded = {target for disk, target in targets.items() if disk.name in fully_read}
    covered = checkpoints.find_covered_disks(domain, previous) - excluded
    missing = "no_checkpoint" if previous else "requested"
    reasons = {
        disk.name: None if target in covered else "requested" if target in excluded else missing
        for disk, target in targets.items()
    }
    try:
        copies = {target: create_copy(connection, disk) for disk, target in targets.items()}
        try:
            consistency = start_job(domain, copies, name, previous, covered)
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_CHECKPOINT_INCONSISTENT:
                raise
            checkpoints.delete(domain)
            reasons = dict.fromkeys(reasons, "broken_bitmap")
            consistency = start_job(domain, copies, name, None, set())
        limit_speed(domain, copies, bytes_per_second)
        wait_for_job(domain, progress)
    except BaseException:
        with contextlib.suppress(libvirt.libvirtError, Refused):
            end_job(connection, machine_id, [(disk.pool, disk.name) for disk in disks])
        raise
    return BackupJob(consistency, name, reasons)


def find_targets(connection: libvirt.virConnect, domain: libvirt.virDomain, disks: Iterable[Disk]) -> dict[Disk, str]:
    """Return disk → target of the machine. A disk may be in use through its overlay."""
    used, targets = list_disk_targets(domain), {}
    for disk in disks:
        paths = [pools.get_volume(connection, disk).path()]
        with ignore_missing():
            paths.append(pools.get_volume(connection, replace(disk, name=make_overlay_name(disk.name))).path())
        devices = [used[path] for path in paths if path in used]
        if not devices:
            raise NotOnNode(message("The machine does not have this disk."), f"{paths[0]} in {domain.UUIDString()}")
        targets[disk] = devices[0]
    return targets


def create_copy(connection: libvirt.virConnect, disk: Disk) -> str:
    """Create an empty volume for the copy of a disk; return its path."""
    volume_pool = connection.storagePoolLookupByName(disk.pool)
    name, size = make_backup_name(disk.name), pools.get_volume(connection, disk).info()[1]
    return pools.create_volume(volume_pool, name, xml.build_qcow2_xml(name, size)).path()


def start_job(
    domain: libvirt.virDomain, copies: dict[str, str], name: str, previous: str | None, covered: set[str]
) -> str:
    """Begin the job, with the guest's file systems frozen if its agent can; return the consistency. `copies`: the
    targets of the included disks → the files of their copies; `covered`: those whose changes since `previous` are
    known."""
    every = sorted(set(list_disk_targets(domain).values()))
    devices = [build_disk(target, copies.get(target), previous if target in covered else None) for target in every]
    bitmaps = [E.disk(name=target, checkpoint="bitmap" if target in copies else "no") for target in every]
    job, checkpoint = (
        E.domainbackup(E.disks(*devices), mode="push"),
        E.domaincheckpoint(E.name(name), E.disks(*bitmaps)),
    )
    with freeze_filesystems(domain) as is_frozen:
        domain.backupBegin(xml.to_text(job), xml.to_text(checkpoint), libvirt.VIR_DOMAIN_BACKUP_BEGIN_REUSE_EXTERNAL)
    return "filesystem" if is_frozen else "crash"


def build_disk(target: str, copy: str | None, previous: str | None) -> etree._Element:
    if copy is None:
        return E.disk(name=target, backup="no")
    device = E.disk(E.driver(type="qcow2"), E.target(file=copy), name=target, backup="yes", type="file")
    device.attrib.update({"backupmode": "incremental", "incremental": previous} if previous else {"backupmode": "full"})
    return device


def limit_speed(domain: libvirt.virDomain, targets: Iterable[str], bytes_per_second: int) -> None:
    for target in targets if bytes_per_second else ():
        with contextlib.suppress(libvirt.libvirtError):  # this disk is complete already
            domain.blockJobSetSpeed(target, bytes_per_second, libvirt.VIR_DOMAIN_BLOCK_JOB_SPEED_BANDWIDTH_BYTES)


def wait_for_job(domain: libvirt.virDomain, progress: Progress) -> None:
    while (job := domain.jobStats()).get("type", libvirt.VIR_DOMAIN_JOB_NONE) != libvirt.VIR_DOMAIN_JOB_NONE:
        progress(job.get("disk_processed", 0), job.get("disk_total", 0))
        time.sleep(JOB_POLL_INTERVAL_SECONDS)
    result = domain.jobStats(libvirt.VIR_DOMAIN_JOB_STATS_COMPLETED)
    if not result.get("success"):
        raise Refused(message("The hypervisor could not read the disks."), str(result.get("errmsg", "the job failed")))


def has_job(domain: libvirt.virDomain) -> bool:
    try:
        domain.backupGetXMLDesc()
    except libvirt.libvirtError as error:
        if error.get_error_code() not in (libvirt.VIR_ERR_NO_DOMAIN_BACKUP, libvirt.VIR_ERR_OPERATION_INVALID):
            raise
        return False
    return True


def end(domain: libvirt.virDomain) -> None:
    """End the job, if there is one."""
    if not has_job(domain):
        return
    with contextlib.suppress(libvirt.libvirtError):  # it ended meanwhile
        domain.abortJob()
    deadline = time.monotonic() + JOB_END_TIMEOUT_SECONDS
    while has_job(domain):
        if time.monotonic() > deadline:
            raise Refused(message("The backup job does not end."), f"machine {domain.UUIDString()}")
        time.sleep(JOB_POLL_INTERVAL_SECONDS)


def end_job(connection: libvirt.virConnect, machine_id: str | None, disks: list[tuple[str, str]]) -> None:
    if machine_id is not None:
        with ignore_missing():
            end(get_domain(connection, machine_id))
    for pool, name in disks:
        pools.delete_disk(connection, pool, make_backup_name(name))


def copy_stopped_disk(connection: libvirt.virConnect, disk: Disk) -> None:
    """Copy a disk that no running machine uses, with all its base images; libvirt runs qemu-img for it."""
    source = disk
    with ignore_missing():
        overlay = replace(disk, name=make_overlay_name(disk.name))
        pools.get_volume(connection, overlay)
        source = overlay
    media.copy_disk(connection, source, replace(disk, name=make_backup_name(disk.name)))
