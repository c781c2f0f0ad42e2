"""Snapshots inside the machine's own disks (qcow2 keeps them): all disks at one moment, and the memory if it runs."""

import contextlib

import libvirt
from lxml import etree
from lxml.builder import E

from worker.nodes.base import Missing, Refused
from worker.nodes.libvirt import xml
from worker.nodes.libvirt.errors import absent_is_fine
from worker.nodes.libvirt.machines import find, power_off

RUNNING, PAUSED = libvirt.VIR_DOMAIN_SNAPSHOT_REVERT_RUNNING, libvirt.VIR_DOMAIN_SNAPSHOT_REVERT_PAUSED


def take(connection, machine_id: str, name: str, memory: bool):
    domain = find(connection, machine_id)
    if (
        etree.fromstring(domain.XMLDesc()).find("os").get("firmware") == "efi"
    ):  # libvirt would notice it while it runs only
        raise Refused("A machine with secure boot cannot take snapshots.", f"machine {machine_id}")
    if (earlier := lookup(domain, name)) is not None:
        earlier.delete()
    with at_rest(domain, wanted=not memory):
        domain.snapshotCreateXML(xml.text(E.domainsnapshot(E.name(name))))


@contextlib.contextmanager
def at_rest(domain, wanted: bool):
    """The guest's file systems are at rest meanwhile, where its agent can bring that about: without the memory they are
    all that will be left."""
    frozen = False
    if wanted and domain.isActive():
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
    domain = find(connection, machine_id)
    found = lookup(domain, name)
    if found is None:
        raise Missing("The hypervisor does not have this snapshot.", f"snapshot {name} of machine {machine_id}")
    power_off(connection, machine_id)
    if etree.fromstring(found.getXMLDesc()).findtext("state") == "shutoff":
        domain.revertToSnapshot(found, 0)
    elif memory:
        domain.revertToSnapshot(found, RUNNING)
    else:
        domain.revertToSnapshot(found, PAUSED)
        power_off(connection, machine_id)


def delete(connection, machine_id: str, name: str):
    with absent_is_fine():
        found = lookup(find(connection, machine_id), name)
        if found is not None:
            found.delete()


def lookup(domain, name: str):
    try:
        return domain.snapshotLookupByName(name)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN_SNAPSHOT:
            raise
        return None
