"""Snapshots inside the machine's own disks (stored by qcow2): all disks at one moment, and the memory if requested.

libvirt itself always stores the memory of a running machine in a snapshot. So a snapshot without memory is taken by
QEMU's monitor, and libvirt is given its description, which is that of a machine that is off.
"""

import contextlib
import time
from collections.abc import Iterator

import libvirt
from lxml import etree
from lxml.builder import E

from panel.core.messages import message
from worker.nodes.base import NotOnNode, Refused
from worker.nodes.libvirt import checkpoints, saved_state, xml
from worker.nodes.libvirt.errors import ignore_missing
from worker.nodes.libvirt.machines import get_domain, power_off
from worker.nodes.libvirt.monitor import list_disk_nodes, run_monitor_command

DEFINITION_XML_FLAGS = libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE
REVERT_RUNNING, REVERT_PAUSED = libvirt.VIR_DOMAIN_SNAPSHOT_REVERT_RUNNING, libvirt.VIR_DOMAIN_SNAPSHOT_REVERT_PAUSED


def create(connection: libvirt.virConnect, machine_id: str, name: str, memory: bool) -> None:
    domain = get_domain(connection, machine_id)
    if (
        etree.fromstring(domain.XMLDesc()).find("os").get("firmware") == "efi"
    ):  # libvirt checks this only while the machine runs
        raise Refused(message("An instance with secure boot cannot have snapshots."), f"machine {machine_id}")
    if (old_snapshot := find_snapshot(domain, name)) is not None:
        old_snapshot.delete()
    if not domain.isActive():
        checkpoints.delete(domain)  # with checkpoints libvirt takes snapshots of running machines only
    if memory or not domain.isActive():
        domain.snapshotCreateXML(xml.to_text(E.domainsnapshot(E.name(name))))
    else:
        snapshot_disks(domain, name)


def snapshot_disks(domain: libvirt.virDomain, name: str) -> None:
    """Snapshot all disks of a running machine at one moment, without its memory."""
    with freeze_filesystems(domain):
        data = [{"device": node, "name": name} for node in list_disk_nodes(domain)]
        run_monitor_command(
            domain,
            "transaction",
            actions=[{"type": "blockdev-snapshot-internal-sync", "data": entry} for entry in data],
        )
    try:
        domain.snapshotCreateXML(build_snapshot_xml(domain, name), libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE)
    except libvirt.libvirtError:
        for disk_snapshot in data:
            run_monitor_command(domain, "blockdev-snapshot-delete-internal-sync", **disk_snapshot)
        raise


def build_snapshot_xml(domain: libvirt.virDomain, name: str) -> str:
    definition = etree.fromstring(domain.XMLDesc(DEFINITION_XML_FLAGS))
    disks = definition.xpath("devices/disk[@device='disk']/target/@dev")
    return xml.to_text(
        E.domainsnapshot(
            E.name(name),
            E.state("shutoff"),
            E.creationTime(str(int(time.time()))),
            E.memory(snapshot="no"),
            E.disks(*(E.disk(name=disk, snapshot="internal") for disk in disks)),
            definition,
        )
    )


@contextlib.contextmanager
def freeze_filesystems(domain: libvirt.virDomain) -> Iterator[bool]:
    """Freeze the guest's file systems for the duration of the block, if its agent can: without memory, a snapshot
    contains only what is on disk. Yields whether they are frozen."""
    frozen = False
    with contextlib.suppress(libvirt.libvirtError):
        domain.fsFreeze()
        frozen = True
    try:
        yield frozen
    finally:
        if frozen:
            with contextlib.suppress(libvirt.libvirtError):
                domain.fsThaw()


def revert(connection: libvirt.virConnect, machine_id: str, name: str, memory: bool) -> None:
    domain = get_domain(connection, machine_id)
    snapshot = find_snapshot(domain, name)
    if snapshot is None:
        raise NotOnNode(
            message("The hypervisor does not have this snapshot."), f"snapshot {name} of machine {machine_id}"
        )
    saved_state.delete(connection, machine_id)  # its memory does not belong to the disks of the snapshot
    checkpoints.delete(domain)  # bitmaps do not record what the snapshot changes, and QEMU refuses disks with bitmaps
    power_off(connection, machine_id)
    if etree.fromstring(snapshot.getXMLDesc()).findtext("state") == "shutoff":
        domain.revertToSnapshot(snapshot, 0)
    elif memory:
        domain.revertToSnapshot(snapshot, REVERT_RUNNING)
    else:
        domain.revertToSnapshot(snapshot, REVERT_PAUSED)
        power_off(connection, machine_id)


def delete(connection: libvirt.virConnect, machine_id: str, name: str) -> None:
    with ignore_missing():
        snapshot = find_snapshot(get_domain(connection, machine_id), name)
        if snapshot is not None:
            snapshot.delete()


def find_snapshot(domain: libvirt.virDomain, name: str) -> libvirt.virDomainSnapshot | None:
    try:
        return domain.snapshotLookupByName(name)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN_SNAPSHOT:
            raise
        return None
