"""The firmware of a machine, and what the node keeps of it beside the definition.

Without more it is a BIOS. Secure boot needs UEFI, whose variables (Microsoft's keys among them) lie in flash memory
that only system management mode may write.
"""

import contextlib

import libvirt
from lxml import etree
from lxml.builder import E

from worker.nodes.base import Machine, Refused
from worker.nodes.libvirt import chipset

SECURE_BOOT_XPATH = "enum[@name='firmware']/value/text() | loader[@supported='yes']/enum[@name='secure']/value/text()"

UNDEFINE_FLAGS = (
    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
)
"""What goes with a definition. So does the state of a TPM, which libvirt removes when nothing says otherwise."""


def is_supported(connection: libvirt.virConnect) -> bool:
    """Whether libvirt finds a firmware with secure boot."""
    try:
        told = connection.getDomainCapabilities(None, "x86_64", "q35", None)
    except libvirt.libvirtError:
        return False
    system = etree.fromstring(told).find("os[@supported='yes']")
    found = [] if system is None else system.xpath(SECURE_BOOT_XPATH)
    return "efi" in found and "yes" in found


def ensure_supported(machine: Machine, there: bool):
    if machine.secure_boot and not there:
        raise Refused("The hypervisor cannot give the machine secure boot.", f"no firmware for machine {machine.id}")


def build_elements(machine: Machine, machine_type: str) -> list[etree._Element]:
    """Its `os` and `features`."""
    if machine.secure_boot:
        return build_secure_elements(machine_type)
    return [E.os(E.type("hvm", arch="x86_64", machine=machine_type)), E.features(E.acpi(), E.apic())]


def build_secure_elements(machine_type: str = chipset.Q35) -> list[etree._Element]:
    wanted = [E.feature(enabled="yes", name=name) for name in ("enrolled-keys", "secure-boot")]
    system = E.os(E.type("hvm", arch="x86_64", machine=machine_type), E.firmware(*wanted), firmware="efi")
    return [system, E.features(E.acpi(), E.apic(), E.smm(state="on"))]


def delete_state(connection: libvirt.virConnect, machine_id: str, name: str):
    """Removes what a TPM and secure boot left of a machine that the node does not know any more, also when they had
    been switched off: a definition of its id that has both takes it along."""
    kept = (E.tpm(E.backend(type="emulator", version="2.0"), model="tpm-tis"),)
    for devices in (kept, ()):
        with contextlib.suppress(libvirt.libvirtError):
            connection.defineXML(build_empty_machine(machine_id, name, devices)).undefineFlags(UNDEFINE_FLAGS)
            return


def build_empty_machine(machine_id: str, name: str, devices) -> str:
    """A machine with secure boot and nothing else in it."""
    described = E.domain(
        E.name(name),
        E.uuid(machine_id),
        E.memory("64", unit="MiB"),
        *build_secure_elements(),
        E.devices(*devices),
        type="qemu",
    )
    return etree.tostring(described, encoding="unicode")
