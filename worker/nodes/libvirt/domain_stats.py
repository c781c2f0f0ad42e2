"""The status of all machines of a node, in one call."""

import contextlib
from typing import Any

import libvirt
from lxml import etree

from worker.nodes.base import MachineStatus, Power

STATS_FLAGS = (
    libvirt.VIR_DOMAIN_STATS_STATE
    | libvirt.VIR_DOMAIN_STATS_CPU_TOTAL
    | libvirt.VIR_DOMAIN_STATS_BALLOON
    | libvirt.VIR_DOMAIN_STATS_INTERFACE
    | libvirt.VIR_DOMAIN_STATS_BLOCK
)

STATS_NOWAIT_FLAG = libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
"""A machine that is busy with a long operation is listed without its counters, so the others need not wait for it."""

PAUSED_STATES = (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PMSUSPENDED)
OFF_STATES = (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_CRASHED)


def to_power(state: int) -> Power:
    """Return the power state. A guest that shuts down is still on: it may be about to restart."""
    if state in OFF_STATES:
        return Power.off
    return Power.paused if state in PAUSED_STATES else Power.on


class InterfaceMacs:
    """The MAC of each interface name of a running machine. libvirt's counters name only the interface, so the machine's
    definition is read once for each of its starts (and again when an unknown NIC appears)."""

    def __init__(self) -> None:
        self.macs_by_run: dict[tuple[str, int], dict[str, str]] = {}

    def get_macs(self, domain: libvirt.virDomain, names: list[str]) -> dict[str, str]:
        run = domain.UUIDString(), domain.ID()
        if not names:
            return {}
        if not self.macs_by_run.get(run, {}).keys() >= set(names):
            interfaces = etree.fromstring(domain.XMLDesc()).iterfind("devices/interface[target]")
            self.macs_by_run[run] = {
                interface.find("target").get("dev"): interface.find("mac").get("address") for interface in interfaces
            }
        return self.macs_by_run[run]

    def discard_stopped(self, running: set[tuple[str, int]]) -> None:
        for run in self.macs_by_run.keys() - running:
            self.macs_by_run.pop(run, None)


def list_machines(connection: libvirt.virConnect, interface_macs: InterfaceMacs) -> list[MachineStatus]:
    stats = connection.getAllDomainStats(STATS_FLAGS, STATS_NOWAIT_FLAG)
    interface_macs.discard_stopped({(domain.UUIDString(), domain.ID()) for domain, _ in stats})
    return [build_machine_status(domain, values, interface_macs) for domain, values in stats]


def build_machine_status(
    domain: libvirt.virDomain, values: dict[str, Any], interface_macs: InterfaceMacs
) -> MachineStatus:
    """Return the status. libvirt counts from the guest's point of view, although the interface on the host sees the
    reverse: rx is what the guest received (verified with real traffic in both directions)."""
    names = {n: values[f"net.{n}.name"] for n in range(values.get("net.count", 0)) if f"net.{n}.name" in values}
    macs = {}
    with contextlib.suppress(libvirt.libvirtError):  # it stopped after the counters were read
        macs = interface_macs.get_macs(domain, list(names.values()))
    nic_numbers = {macs[name]: n for n, name in names.items() if name in macs}
    blocks = range(values.get("block.count", 0))
    return MachineStatus(
        id=domain.UUIDString(),
        name=domain.name(),
        power=to_power(values["state.state"]),
        cpu_seconds=values.get("cpu.time", 0) / 1e9,
        memory_used=values.get("balloon.rss", 0) * 1024,
        received={mac: values.get(f"net.{n}.rx.bytes", 0) for mac, n in nic_numbers.items()},
        sent={mac: values.get(f"net.{n}.tx.bytes", 0) for mac, n in nic_numbers.items()},
        disk_read=sum(values.get(f"block.{n}.rd.bytes", 0) for n in blocks),
        disk_written=sum(values.get(f"block.{n}.wr.bytes", 0) for n in blocks),
        disk_reads=sum(values.get(f"block.{n}.rd.reqs", 0) for n in blocks),
        disk_writes=sum(values.get(f"block.{n}.wr.reqs", 0) for n in blocks),
        guest_memory=compute_used_memory(values),
    )


def compute_used_memory(values: dict[str, Any]) -> int | None:
    """Return the bytes in use as the guest's balloon driver reports them. Page cache is not counted as used memory."""
    total, free = values.get("balloon.available"), values.get("balloon.usable", values.get("balloon.unused"))
    return (total - free) * 1024 if total and free is not None else None
