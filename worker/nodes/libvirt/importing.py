"""Defining machines that somebody else made, and giving them back.

What a machine was before lies in its metadata until it is defined anew: a definition replaces the metadata, too. So
nothing has to be kept elsewhere, and whoever takes over from a worker that died can give it back.
"""

import contextlib

import libvirt
from lxml import etree
from lxml.builder import ElementMaker

from worker.nodes.base import Machine, Refused
from worker.nodes.libvirt import firewall, machines, nic_devices, unmanaged_machines
from worker.nodes.libvirt.machines import find

NAMESPACE = "urn:panel:before:1"
NOTE = ElementMaker(namespace=NAMESPACE, nsmap={"before": NAMESPACE})
LASTING = libvirt.VIR_DOMAIN_XML_SECURE | libvirt.VIR_DOMAIN_XML_INACTIVE


def adopt(connection, machine: Machine, kvm: bool, limits: bool, guarded: bool):
    domain = find(connection, machine.id)
    if domain.isActive():
        raise Refused("The machine is on.", f"machine {machine.id}")
    unmanaged_machines.read_anew(connection)  # its disks may have been put there by hand
    note = before(domain)
    if note is None:
        note = NOTE.definition(domain.XMLDesc(LASTING), autostart=str(domain.autostart()))
    try:
        machines.define(connection, machine, kvm, limits, guarded, (note,))
        domain.setAutostart(0)
    except libvirt.libvirtError:
        with contextlib.suppress(libvirt.libvirtError):
            give_back(connection, machine.id)
        raise


def before(domain):
    """The note of what the machine was, or None."""
    return etree.fromstring(domain.XMLDesc(LASTING)).find(f"metadata/{{{NAMESPACE}}}definition")


def give_back(connection, machine_id: str):
    domain = find(connection, machine_id)
    note = before(domain)
    if note is None:
        return
    ours = nic_devices.macs(domain)
    name = etree.fromstring(note.text).findtext("name")
    if domain.name() != name:
        domain.rename(name)
    connection.defineXML(note.text).setAutostart(int(note.get("autostart")))
    firewall.forget(connection, ours)
