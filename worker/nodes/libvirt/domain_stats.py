"""What the node says of its machines, in one call however many there are."""

import contextlib

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
"""A machine that is busy with something long is told without its counters, rather than all waiting for it."""

PAUSED_STATES = (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PMSUSPENDED)
OFF_STATES = (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_CRASHED)


def to_power(state: int) -> Power:
    """A guest that shuts down is still on: it may be about to restart."""
    if state in OFF_STATES:
        return Power.off
    return Power.paused if state in PAUSED_STATES else Power.on


class InterfaceMacs:
    """The MAC behind each interface name of a running machine. libvirt's counters name only the interface, so the
    machine's description is read once for each of its starts (and again when an unknown card appears)."""

    def __init__(self):
        self.known: dict[tuple[str, int], dict[str, str]] = {}

    def of(self, domain, names: list[str]) -> dict[str, str]:
        run = domain.UUIDString(), domain.ID()
        if not names:
            return {}
        if not self.known.get(run, {}).keys() >= set(names):
            cards = etree.fromstring(domain.XMLDesc()).iterfind("devices/interface[target]")
            self.known[run] = {card.find("target").get("dev"): card.find("mac").get("address") for card in cards}
        return self.known[run]

    def keep(self, running: set[tuple[str, int]]):
        for run in self.known.keys() - running:
            self.known.pop(run, None)


def list_machines(connection, cards: InterfaceMacs) -> list[MachineStatus]:
    stats = connection.getAllDomainStats(STATS_FLAGS, STATS_NOWAIT_FLAG)
    cards.keep({(domain.UUIDString(), domain.ID()) for domain, _ in stats})
    return [machine_status(domain, values, cards) for domain, values in stats]


def machine_status(domain, values: dict, cards: InterfaceMacs) -> MachineStatus:
    """libvirt counts a card from the guest's point of view, although the interface on the host sees the reverse: rx is
    what the guest received (tried with real traffic in both directions)."""
    names = {n: values[f"net.{n}.name"] for n in range(values.get("net.count", 0)) if f"net.{n}.name" in values}
    macs = {}
    with contextlib.suppress(libvirt.libvirtError):  # it stopped since it was counted
        macs = cards.of(domain, list(names.values()))
    counted = {macs[name]: n for n, name in names.items() if name in macs}
    blocks = range(values.get("block.count", 0))
    return MachineStatus(
        id=domain.UUIDString(),
        name=domain.name(),
        power=to_power(values["state.state"]),
        cpu_seconds=values.get("cpu.time", 0) / 1e9,
        memory_used=values.get("balloon.rss", 0) * 1024,
        received={mac: values.get(f"net.{n}.rx.bytes", 0) for mac, n in counted.items()},
        sent={mac: values.get(f"net.{n}.tx.bytes", 0) for mac, n in counted.items()},
        disk_read=sum(values.get(f"block.{n}.rd.bytes", 0) for n in blocks),
        disk_written=sum(values.get(f"block.{n}.wr.bytes", 0) for n in blocks),
        disk_reads=sum(values.get(f"block.{n}.rd.reqs", 0) for n in blocks),
        disk_writes=sum(values.get(f"block.{n}.wr.reqs", 0) for n in blocks),
        guest_memory=used_guest_memory(values),
    )


def used_guest_memory(values: dict) -> int | None:
    """What the guest's balloon driver tells. Memory that it would give up for programs does not count as used."""
    total, free = values.get("balloon.available"), values.get("balloon.usable", values.get("balloon.unused"))
    return (total - free) * 1024 if total and free is not None else None
