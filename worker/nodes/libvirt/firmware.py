"""The firmware of a machine, and what the node keeps of it beside the definition.

Without more it is a BIOS on the machine type `pc`. Secure boot needs UEFI, whose variables (Microsoft's keys among
them) lie in flash memory that only system management mode may write, and so the machine type `q35`. That one has no
IDE, and Debian's cloud kernel has no driver for its SATA drives: the seed lies in a SCSI drive there, and media, which
installers of every system have to find, in SATA ones. Its PCI Express slots have to be there before something can be
plugged in.
"""

import contextlib

import libvirt
from lxml import etree
from lxml.builder import E

from worker.nodes.base import Machine, Refused

BIOS_SLOTS = {"seed": "hda", "primary": "hdc", "secondary": "hdd"}
"""The optical drives. The seed comes first, so that a boot order never depends on it being there."""

UEFI_SLOTS = {"seed": "sda", "primary": "sdb", "secondary": "sdc"}

SPARE = 16
"""Slots for disks and volumes that are attached while the machine runs."""

SECURE = "enum[@name='firmware']/value/text() | loader[@supported='yes']/enum[@name='secure']/value/text()"

FORGET = (
    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
)
"""What goes with a definition. So does the state of a TPM, which libvirt removes when nothing says otherwise."""


def offered(connection: libvirt.virConnect) -> bool:
    """Whether libvirt finds a firmware with secure boot."""
    try:
        told = connection.getDomainCapabilities(None, "x86_64", "q35", None)
    except libvirt.libvirtError:
        return False
    system = etree.fromstring(told).find("os[@supported='yes']")
    found = [] if system is None else system.xpath(SECURE)
    return "efi" in found and "yes" in found


def check(machine: Machine, there: bool):
    if machine.secure_boot and not there:
        raise Refused("The hypervisor cannot give the machine secure boot.", f"no firmware for machine {machine.id}")


def parts(machine: Machine) -> list[etree._Element]:
    """Its `os` and `features`."""
    if machine.secure_boot:
        return secure_parts()
    return [E.os(E.type("hvm", arch="x86_64", machine="pc")), E.features(E.acpi(), E.apic())]


def secure_parts() -> list[etree._Element]:
    wanted = [E.feature(enabled="yes", name=name) for name in ("enrolled-keys", "secure-boot")]
    system = E.os(E.type("hvm", arch="x86_64", machine="q35"), E.firmware(*wanted), firmware="efi")
    return [system, E.features(E.acpi(), E.apic(), E.smm(state="on"))]


def controllers(machine: Machine) -> list[etree._Element]:
    if not machine.secure_boot:
        return []
    slots = SPARE + len(machine.disks) + len(machine.nics)
    ports = [E.controller(type="pci", model="pcie-root-port") for _ in range(slots)]
    return [
        E.controller(type="pci", index="0", model="pcie-root"),
        *ports,
        E.controller(type="scsi", model="virtio-scsi"),
    ]


def slots(machine: Machine) -> dict[str, str]:
    return UEFI_SLOTS if machine.secure_boot else BIOS_SLOTS


def names(slot: str) -> tuple[str, str]:
    """What the drive of that slot may be called: with either firmware."""
    return BIOS_SLOTS[slot], UEFI_SLOTS[slot]


def bus(device: str) -> str:
    return "ide" if device.startswith("h") else "scsi" if device == UEFI_SLOTS["seed"] else "sata"


def forget(connection: libvirt.virConnect, machine_id: str, name: str):
    """Removes what a TPM and secure boot left of a machine that the node does not know any more, also when they had
    been switched off: a definition of its id that has both takes it along."""
    kept = (E.tpm(E.backend(type="emulator", version="2.0"), model="tpm-tis"),)
    for devices in (kept, ()):
        with contextlib.suppress(libvirt.libvirtError):
            connection.defineXML(shell(machine_id, name, devices)).undefineFlags(FORGET)
            return


def shell(machine_id: str, name: str, devices) -> str:
    """A machine with secure boot and nothing else in it."""
    described = E.domain(
        E.name(name), E.uuid(machine_id), E.memory("64", unit="MiB"), *secure_parts(), E.devices(*devices), type="qemu"
    )
    return etree.tostring(described, encoding="unicode")
