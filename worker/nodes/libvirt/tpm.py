"""The TPM of a machine: swtpm, which libvirt runs beside QEMU where it is installed."""

import libvirt
from lxml import etree
from lxml.builder import E

from worker.nodes.base import Machine, Refused


def is_supported(connection: libvirt.virConnect) -> bool:
    """Whether libvirt finds what it needs to give a machine of ours a TPM."""
    try:
        told = connection.getDomainCapabilities(None, "x86_64", "pc", None)
    except libvirt.libvirtError:
        return False
    found = etree.fromstring(told).xpath("devices/tpm[@supported='yes']/enum[@name='backendModel']/value/text()")
    return "emulator" in found


def ensure_supported(machine: Machine, there: bool):
    """libvirt itself would notice only when the machine starts."""
    if machine.tpm and not there:
        raise Refused("The hypervisor cannot give the machine a TPM.", f"no swtpm for machine {machine.id}")


def build_devices(machine: Machine) -> list[etree._Element]:
    return [E.tpm(E.backend(type="emulator", version="2.0"), model="tpm-tis")] if machine.tpm else []
