"""Importing unmanaged machines, and reverting it.

The earlier definition is stored in the machine's metadata until the machine is defined again, which replaces the
metadata. So no other storage is needed, and another worker can revert the import if the first one dies.
"""

import contextlib

import libvirt
from lxml import etree
from lxml.builder import ElementMaker

from panel.core.messages import message
from worker.nodes.base import Machine, Refused
from worker.nodes.libvirt import firewall, machines, nic_devices, unmanaged_machines
from worker.nodes.libvirt.capabilities import ProbedCapabilities
from worker.nodes.libvirt.machines import get_domain

NOTE_NAMESPACE = "urn:panel:before:1"
NOTE_ELEMENT = ElementMaker(namespace=NOTE_NAMESPACE, nsmap={"before": NOTE_NAMESPACE})
DEFINITION_XML_FLAGS = libvirt.VIR_DOMAIN_XML_SECURE | libvirt.VIR_DOMAIN_XML_INACTIVE


def import_machine(connection: libvirt.virConnect, machine: Machine, facts: ProbedCapabilities) -> None:
    domain = get_domain(connection, machine.id)
    if domain.isActive():
        raise Refused(message("The machine is on."), f"machine {machine.id}")
    unmanaged_machines.refresh_pools(connection)  # its disks may have been placed there by hand
    note = find_note(domain)
    if note is None:
        note = NOTE_ELEMENT.definition(domain.XMLDesc(DEFINITION_XML_FLAGS), autostart=str(domain.autostart()))
    try:
        machines.define(connection, machine, facts, (note,))
        domain.setAutostart(0)
    except libvirt.libvirtError:
        with contextlib.suppress(libvirt.libvirtError):
            revert_import(connection, machine.id)
        raise


def find_note(domain: libvirt.virDomain) -> etree._Element | None:
    """Return the metadata element with the earlier definition, or None."""
    return etree.fromstring(domain.XMLDesc(DEFINITION_XML_FLAGS)).find(f"metadata/{{{NOTE_NAMESPACE}}}definition")


def revert_import(connection: libvirt.virConnect, machine_id: str) -> None:
    domain = get_domain(connection, machine_id)
    note = find_note(domain)
    if note is None:
        return
    macs = nic_devices.list_macs(domain)
    name = etree.fromstring(note.text).findtext("name")
    if domain.name() != name:
        domain.rename(name)
    connection.defineXML(note.text).setAutostart(int(note.get("autostart")))
    firewall.delete_filters(connection, macs)
