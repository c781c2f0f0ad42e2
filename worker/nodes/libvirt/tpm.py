"""The TPM of a machine: swtpm, which libvirt runs beside QEMU where it is installed."""

import libvirt
from lxml import etree
from lxml.builder import E

from panel.core.messages import message
from worker.nodes.base import Machine, Refused


def is_supported(connection: libvirt.virConnect) -> bool:
    """Return whether libvirt finds what it needs to give a machine a TPM."""
    try:
        description = connection.getDomainCapabilities(None, "x86_64", "pc", None)
    except libvirt.libvirtError:
        return False
    backends = etree.fromstring(description).xpath(
        "devices/tpm[@supported='yes']/enum[@name='backendModel']/value/text()"
    )
    return "emulator" in backends


def ensure_supported(machine: Machine, is_available: bool) -> None:
    """Raise `Refused` when the machine needs a TPM and the node has none: libvirt would notice only at the machine's
    start."""
    if machine.tpm and not is_available:
        raise Refused(message("The hypervisor cannot give the machine a TPM."), f"no swtpm for machine {machine.id}")


def build_devices(machine: Machine) -> list[etree._Element]:
    return [E.tpm(E.backend(type="emulator", version="2.0"), model="tpm-tis")] if machine.tpm else []
