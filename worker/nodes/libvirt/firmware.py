"""The firmware of a machine, and its state that the node stores beside the definition.

The default is a BIOS. Secure boot needs UEFI, whose variables (Microsoft's keys among them) are in flash memory (NVRAM)
that only system management mode may write.
"""

import contextlib
from collections.abc import Iterable

import libvirt
from lxml import etree
from lxml.builder import E

from panel.core.messages import message
from worker.nodes.base import Machine, Refused
from worker.nodes.libvirt import chipset

SECURE_BOOT_XPATH = "enum[@name='firmware']/value/text() | loader[@supported='yes']/enum[@name='secure']/value/text()"

UNDEFINE_FLAGS = (
    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
)
"""What is deleted with a definition. The state of a TPM is deleted too, which is libvirt's default."""


def is_supported(connection: libvirt.virConnect) -> bool:
    """Return whether libvirt finds a firmware with secure boot."""
    try:
        description = connection.getDomainCapabilities(None, "x86_64", "q35", None)
    except libvirt.libvirtError:
        return False
    system = etree.fromstring(description).find("os[@supported='yes']")
    values = [] if system is None else system.xpath(SECURE_BOOT_XPATH)
    return "efi" in values and "yes" in values


def ensure_supported(machine: Machine, is_available: bool) -> None:
    if machine.secure_boot and (machine.kernel or not is_available):
        raise Refused(
            message("The hypervisor cannot give the machine secure boot."), f"no firmware for machine {machine.id}"
        )


def build_elements(machine: Machine, machine_type: str) -> list[etree._Element]:
    """Return the machine's `os` and `features`."""
    if machine.secure_boot:
        return build_secure_elements(machine_type)
    return [E.os(E.type("hvm", arch="x86_64", machine=machine_type)), E.features(E.acpi(), E.apic())]


def build_secure_elements(machine_type: str = chipset.Q35) -> list[etree._Element]:
    features = [E.feature(enabled="yes", name=name) for name in ("enrolled-keys", "secure-boot")]
    system = E.os(E.type("hvm", arch="x86_64", machine=machine_type), E.firmware(*features), firmware="efi")
    return [system, E.features(E.acpi(), E.apic(), E.smm(state="on"))]


def delete_state(connection: libvirt.virConnect, machine_id: str, name: str) -> None:
    """Delete the TPM and NVRAM state of a machine that the node no longer has, also if both had been switched off. For
    that an empty machine with the same id and both devices is defined and undefined."""
    tpm_devices = (E.tpm(E.backend(type="emulator", version="2.0"), model="tpm-tis"),)
    for devices in (tpm_devices, ()):
        with contextlib.suppress(libvirt.libvirtError):
            connection.defineXML(build_empty_machine(machine_id, name, devices)).undefineFlags(UNDEFINE_FLAGS)
            return


def build_empty_machine(machine_id: str, name: str, devices: Iterable[etree._Element]) -> str:
    """Return a machine with secure boot and nothing else."""
    definition = E.domain(
        E.name(name),
        E.uuid(machine_id),
        E.memory("64", unit="MiB"),
        *build_secure_elements(),
        E.devices(*devices),
        type="qemu",
    )
    return etree.tostring(definition, encoding="unicode")
