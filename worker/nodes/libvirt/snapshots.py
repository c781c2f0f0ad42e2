"""Snapshots inside the machine's own disks (qcow2 keeps them): all disks at one moment, and the memory if it is wanted.

libvirt itself keeps the memory in every snapshot of a machine that runs. So one without it is taken by QEMU's monitor,
and libvirt is given its description, which is that of a machine that is off.
"""

import contextlib
import json
import time

import libvirt
import libvirt_qemu
from lxml import etree
from lxml.builder import E

from worker.nodes.base import Missing, Refused
from worker.nodes.libvirt import xml
from worker.nodes.libvirt.errors import ignore_missing
from worker.nodes.libvirt.machines import get_domain, power_off

DEFINITION_XML_FLAGS = libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE
REVERT_RUNNING, REVERT_PAUSED = libvirt.VIR_DOMAIN_SNAPSHOT_REVERT_RUNNING, libvirt.VIR_DOMAIN_SNAPSHOT_REVERT_PAUSED


def create(connection, machine_id: str, name: str, memory: bool):
    domain = get_domain(connection, machine_id)
    if (
        etree.fromstring(domain.XMLDesc()).find("os").get("firmware") == "efi"
    ):  # libvirt would notice it while it runs only
        raise Refused("A machine with secure boot cannot take snapshots.", f"machine {machine_id}")
    if (earlier := find_snapshot(domain, name)) is not None:
        earlier.delete()
    if memory or not domain.isActive():
        domain.snapshotCreateXML(xml.to_text(E.domainsnapshot(E.name(name))))
    else:
        snapshot_disks(domain, name)


def snapshot_disks(domain, name: str):
    """All disks of a running machine at one moment, without its memory."""
    with freeze_filesystems(domain):
        data = [{"device": node, "name": name} for node in disk_nodes(domain)]
        run_monitor_command(
            domain, "transaction", actions=[{"type": "blockdev-snapshot-internal-sync", "data": d} for d in data]
        )
    try:
        domain.snapshotCreateXML(build_snapshot_xml(domain, name), libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE)
    except libvirt.libvirtError:
        for each in data:
            run_monitor_command(domain, "blockdev-snapshot-delete-internal-sync", **each)
        raise


def disk_nodes(domain) -> list[str]:
    """QEMU's names of the machine's disks."""
    inserted = [each.get("inserted") for each in run_monitor_command(domain, "query-block")]
    return [each["node-name"] for each in inserted if each and not each["ro"] and each["drv"] == "qcow2"]


def run_monitor_command(domain, command: str, **arguments):
    said = libvirt_qemu.qemuMonitorCommand(domain, json.dumps({"execute": command, "arguments": arguments}), 0)
    answer = json.loads(said)
    if "error" in answer:
        raise Refused("The hypervisor could not take the snapshot.", f"{command}: {answer['error']}")
    return answer["return"]


def build_snapshot_xml(domain, name: str) -> str:
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
def freeze_filesystems(domain):
    """The guest's file systems are at rest meanwhile, where its agent can bring that about: without the memory they are
    all that will be left."""
    frozen = False
    with contextlib.suppress(libvirt.libvirtError):
        domain.fsFreeze()
        frozen = True
    try:
        yield
    finally:
        if frozen:
            with contextlib.suppress(libvirt.libvirtError):
                domain.fsThaw()


def revert(connection, machine_id: str, name: str, memory: bool):
    domain = get_domain(connection, machine_id)
    found = find_snapshot(domain, name)
    if found is None:
        raise Missing("The hypervisor does not have this snapshot.", f"snapshot {name} of machine {machine_id}")
    power_off(connection, machine_id)
    if etree.fromstring(found.getXMLDesc()).findtext("state") == "shutoff":
        domain.revertToSnapshot(found, 0)
    elif memory:
        domain.revertToSnapshot(found, REVERT_RUNNING)
    else:
        domain.revertToSnapshot(found, REVERT_PAUSED)
        power_off(connection, machine_id)


def delete(connection, machine_id: str, name: str):
    with ignore_missing():
        found = find_snapshot(get_domain(connection, machine_id), name)
        if found is not None:
            found.delete()


def find_snapshot(domain, name: str):
    try:
        return domain.snapshotLookupByName(name)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN_SNAPSHOT:
            raise
        return None
