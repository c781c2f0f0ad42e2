"""What a node can really do. libvirt reports more than some hosts support, so each thing is probed."""

import time
import uuid
from dataclasses import dataclass

import libvirt
import structlog
from lxml import etree
from lxml.builder import E

from panel.core.messages import message
from worker.nodes.libvirt import filters, firmware, tpm

log = structlog.get_logger()

MIN_PROBE_CPU_NANOSECONDS = 10_000_000
"""Processor time that proves that a guest runs: a thread that was only created may have less."""

PROBE_GUEST_TIMEOUT_SECONDS = 5.0
"""Seconds a probe guest has to use that much processor time."""

FIRST_VERSION_WITH_SAFE_IO_THREADS = 9_000_000
"""QEMU 9.0. Earlier ones can end with "qemu_mutex_unlock_impl: Operation not permitted" when a backup job and a change
of a disk with an I/O thread meet, such as suspend and resume (QEMU issue 2276)."""


@dataclass(frozen=True)
class ProbedCapabilities:
    accelerated: bool
    acceleration_note: str
    bandwidth_limits: bool
    address_filters: bool
    tpm: bool = False
    secure_boot: bool = False
    io_threads: bool = False


def probe(connection: libvirt.virConnect) -> ProbedCapabilities:
    accelerated, note = probe_acceleration(connection)
    device_support = (
        tpm.is_supported(connection),
        firmware.is_supported(connection),
        connection.getVersion() >= FIRST_VERSION_WITH_SAFE_IO_THREADS,
    )
    facts = ProbedCapabilities(
        accelerated, note, probe_bandwidth_limits(connection), probe_address_filters(connection), *device_support
    )
    log.info("libvirt_node_probed", **vars(facts))
    return facts


def probe_acceleration(connection: libvirt.virConnect) -> tuple[bool, str]:
    """Return whether KVM works, which a guest proves by using the processor under it, and a sentence about it."""
    try:
        connection.getDomainCapabilities(None, "x86_64", "pc", "kvm")
    except libvirt.libvirtError as error:
        return False, message("libvirt finds no KVM on this host: guests run in emulation. ({detail})", detail=error)
    try:
        # It ends with this connection, if that is lost before the guest is destroyed.
        guest = connection.createXML(build_probe_guest(), libvirt.VIR_DOMAIN_START_AUTODESTROY)
    except libvirt.libvirtError as error:
        return False, message(
            "A probe guest did not start under KVM: guests run in emulation. ({detail})", detail=error
        )
    try:
        if has_processor(connection, guest):
            return True, message("KVM works: a probe guest ran under it.")
        return False, message("A probe guest hung under KVM: guests run in emulation.")
    finally:
        guest.destroy()


def has_processor(connection: libvirt.virConnect, guest: libvirt.virDomain) -> bool:
    limit = time.monotonic() + PROBE_GUEST_TIMEOUT_SECONDS
    while time.monotonic() < limit:
        [(_, values)] = connection.domainListGetStats([guest], libvirt.VIR_DOMAIN_STATS_VCPU)
        if values.get("vcpu.0.time", 0) >= MIN_PROBE_CPU_NANOSECONDS:
            return True
        time.sleep(0.05)
    return False


def build_probe_guest() -> str:
    """Return a machine like those of the panel, without a boot device: its firmware runs and searches for one."""
    return to_text(
        E.domain(
            E.name(f"panel-probe-{uuid.uuid4()}"),
            E.memory("32", unit="MiB"),
            E.vcpu("1"),
            E.os(E.type("hvm", arch="x86_64", machine="pc")),
            E.features(E.acpi(), E.apic()),
            E.cpu(mode="host-passthrough"),
            type="kvm",
        )
    )


def probe_bandwidth_limits(connection: libvirt.virConnect) -> bool:
    """Return whether a network with limits can be created: some hosts lack the needed parts of the kernel's traffic
    control."""
    limits = E.bandwidth(E.inbound(average="1000"), E.outbound(average="1000"))
    network = E.network(E.name(f"panel-probe-{uuid.uuid4()}"), E.bridge(stp="off"), limits)
    try:
        connection.networkCreateXML(to_text(network)).destroy()
    except libvirt.libvirtError as error:
        log.info("bandwidth_limits_refused", detail=str(error))
        return False
    return True


def probe_address_filters(connection: libvirt.virConnect) -> bool:
    """Return whether filters can be defined. Also updates the guard to the rules of this release."""
    try:
        connection.nwfilterDefineXML(filters.build_guard())
    except libvirt.libvirtError as error:
        log.info("address_filters_refused", detail=str(error))
        return False
    return True


def to_text(element: etree._Element) -> str:
    return etree.tostring(element, encoding="unicode")
