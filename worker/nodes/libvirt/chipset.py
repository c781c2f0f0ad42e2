"""The machine type of a machine, and what follows from it: the buses of its optical drives and its PCI slots.

New machines are `q35`. A PCI Express slot must exist before a device can be attached to it, so ports are defined in
advance. The optical drives are on virtio-scsi: Debian's cloud kernel has no driver for SATA and would not find its
seed. With secure boot only the seed is there, and the media are on SATA, because the installers that need secure boot
have no virtio drivers.

A machine keeps the type of its first definition, with its version: a guest system may not start on other hardware.
Those of earlier releases are `pc` (i440FX) with IDE drives.
"""

import re

from lxml import etree
from lxml.builder import E

from worker.nodes.base import Machine

Q35 = "q35"

I440FX_TYPE = re.compile(r"pc(-i440fx-[\w.]+)?")
Q35_TYPE = re.compile(r"(pc-)?q35(-[\w.]+)?")

IDE_DRIVES = {"seed": "hda", "primary": "hdc", "secondary": "hdd"}
"""The optical drives. The seed comes first, so that a boot order never depends on its presence."""

SCSI_DRIVES = {"seed": "sda", "primary": "sdb", "secondary": "sdc"}

FIXED_PORTS = 5
"""Ports for the serial channel, the balloon, the random number generator, the SCSI and the USB controller."""

FIXED_MICROVM_PORTS, SPARE_MICROVM_PORTS = 4, 4
"""Ports of a micro VM, which has no USB controller. Each port costs time at its boot."""

SPARE_PORTS = 16
"""Ports for devices that are attached while the machine runs. An instance has at most 16 disks and volumes."""


def choose_machine_type(machine: Machine, existing: str = "") -> str:
    """Return the type to define the machine with. `existing` is that of its present definition."""
    if Q35_TYPE.fullmatch(existing) or (I440FX_TYPE.fullmatch(existing) and not machine.secure_boot):
        return existing
    return Q35


def is_q35(machine_type: str) -> bool:
    return bool(Q35_TYPE.fullmatch(machine_type))


def get_drives(machine_type: str) -> dict[str, str]:
    """Return the names of the optical drives by slot."""
    return SCSI_DRIVES if is_q35(machine_type) else IDE_DRIVES


def list_drives(machine: Machine, machine_type: str) -> dict[str, str]:
    """Return the names of the machine's optical drives by slot. A micro VM has only those with a medium."""
    drives = get_drives(machine_type)
    return {slot: name for slot, name in drives.items() if not machine.kernel or slot in machine.media}


def get_drive_names(slot: str) -> tuple[str, str]:
    """Return the drive's possible names for a slot, one for each machine type."""
    return IDE_DRIVES[slot], SCSI_DRIVES[slot]


def get_drive_bus(slot: str, machine: Machine, machine_type: str) -> str:
    if not is_q35(machine_type):
        return "ide"
    return "sata" if machine.secure_boot and slot != "seed" else "scsi"


def build_controllers(machine: Machine, machine_type: str) -> list[etree._Element]:
    if not is_q35(machine_type):
        return []
    fixed, spare = (FIXED_MICROVM_PORTS, SPARE_MICROVM_PORTS) if machine.kernel else (FIXED_PORTS, SPARE_PORTS)
    count = fixed + spare + len(machine.disks) + len(machine.nics)
    ports = [E.controller(type="pci", model="pcie-root-port") for _ in range(count)]
    return [
        E.controller(type="pci", index="0", model="pcie-root"),
        *ports,
        *([E.controller(type="scsi", model="virtio-scsi")] if machine.media or not machine.kernel else []),
        E.controller(type="usb", model="none" if machine.kernel else "qemu-xhci"),
    ]
