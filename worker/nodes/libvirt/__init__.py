"""The driver for libvirt: QEMU/KVM on this machine or on any that libvirt reaches (unix, ssh, tcp, tls).

What happens on a node happens through libvirt's own calls; no file of the node is opened. This class keeps the promises
of the contract about time: every call has a deadline and passes the node's circuit. What the calls do is in the modules
beside it.
"""

from pathlib import Path

import libvirt

from worker.nodes.base import Capabilities, Node, NodeSpec, Refused, Unreachable
from worker.nodes.circuit_breaker import Circuit
from worker.nodes.libvirt import (
    capabilities,
    domain_stats,
    firmware,
    freezing,
    guest_agent,
    guest_agent_status,
    hotplug,
    importing,
    machines,
    media,
    migration,
    neighbours,
    nic_devices,
    overlays,
    pools,
    snapshots,
    tpm,
    unmanaged_machines,
    vnc,
)
from worker.nodes.libvirt.connection import Lines, alive, release
from worker.nodes.libvirt.errors import translated
from worker.nodes.libvirt.events import Watch

SOON, A_WHILE, LONG = 10.0, 45.0, 90.0
"""Deadlines in seconds: for a look, for a change (libvirt itself waits up to 30 for a busy machine), for trying out
what the node can do."""

MEMORY = 600.0
"""Seconds for what writes or reads a guest's whole memory."""

COPY = 3600.0
"""Seconds for what reads and writes a whole disk."""

TAKEN = 1.0
"""Seconds after which a guest counts as asked. libvirt waits up to a minute for it to obey its agent."""


class LibvirtNode(Node):
    def __init__(self, spec: NodeSpec, data_dir: Path):
        super().__init__(spec, data_dir)
        self.lines = Lines(spec.uri)
        self.pings = guest_agent_status.Pings(self.lines)
        self.circuit = Circuit(spec.name)
        self.filters_neighbours = neighbours.is_possible(spec.uri)
        self.cards = domain_stats.Cards()
        self.facts: capabilities.Facts | None = None
        """What the node can do. It is found out again after the node was lost: it may have been changed or repaired."""

    def call(self, doing: str, deadline: float, work, *args, **circuit):
        """Runs `work(connection, *args)` within the deadline. `doing` completes "the hypervisor could not …"."""

        def carry():
            with self.lines.one() as line, translated(line, doing):
                return work(line, *args)

        try:
            return self.circuit.run(carry, deadline, **circuit)
        except Unreachable:
            self.facts = None
            raise

    # --- the node itself

    def capabilities(self):
        return self.call("say what it can do", LONG, self._capabilities)

    def _capabilities(self, connection):
        self.facts = found = capabilities.find_out(connection)
        versions = libvirt_number(connection.getLibVersion()), libvirt_number(connection.getVersion())
        return Capabilities(
            version="libvirt {}, QEMU {}".format(*versions),
            cpu_cores=connection.getInfo()[2],
            memory=connection.getMemoryStats(libvirt.VIR_NODE_MEMORY_STATS_ALL_CELLS)["total"] * 1024,
            accelerated=found.accelerated,
            acceleration_note=found.acceleration_note,
            bandwidth_limits=found.bandwidth_limits,
            address_filters=found.address_filters,
            tpm=found.tpm,
            secure_boot=found.secure_boot,
            pools=pools.pools(connection),
        )

    def ping(self):
        self.call("answer", SOON, libvirt.virConnect.getLibVersion, probe=True)

    def machines(self):
        return self.call("list its machines", SOON, domain_stats.machines, self.cards)

    def watch(self, event, stop):
        watch = self.circuit.run(self._watch, SOON)
        try:
            watch.run(event, stop)
        finally:
            release(watch.line)

    def _watch(self):
        line = self.lines.open()
        with translated(line, "tell of changes"):
            return Watch(line)

    def close(self):
        self.lines.close()

    # --- pools, images, disks

    def prepare_pool(self, name, path):
        return self.call("prepare its storage", A_WHILE, pools.prepare_pool, name, path)

    def has_image(self, pool, image):
        return self.call("look for the image", SOON, pools.has_image, pool, image)

    def put_image(self, pool, image, progress=None):
        """An image takes as long as it takes: the deadline counts from the last byte that moved."""
        moved, last = media.watched(progress)
        self.call("take the image", A_WHILE, pools.put_image, pool, image, moved, heard=last)

    def delete_image(self, pool, name):
        self.call("delete the image", A_WHILE, pools.delete_image, pool, name)

    def create_disk(self, disk, image=None, progress=None):
        self.call("create the disk", A_WHILE, pools.create_disk, disk, image)

    def grow_disk(self, disk, machine_id=None):
        self.call("grow the disk", A_WHILE, pools.grow_disk, disk, machine_id)

    def delete_disk(self, pool, name):
        self.call("delete the disk", A_WHILE, pools.delete_disk, pool, name)

    def disks(self, pool):
        return self.call("list its disks", A_WHILE, pools.disks, pool)

    def write_seed(self, pool, name, seed):
        return self.call("take the first-boot configuration", A_WHILE, pools.write_seed, pool, name, seed)

    def put_medium(self, pool, name, source, size, progress=None):
        moved, last = media.watched(progress)
        return self.call("take the medium", A_WHILE, media.put, pool, name, source, size, moved, heard=last)

    def copy_disk(self, source, target, progress=None):
        grown = media.Growth(lambda: self.call("look at the copy", SOON, media.written, target), progress)
        self.call("copy the disk", A_WHILE, media.copy, source, target, heard=grown)

    def read_disk(self, disk, target, progress=None):
        moved, last = media.watched(progress)
        self.call("read the disk", A_WHILE, media.read, disk, target, moved, heard=last)

    # --- machines

    def set_media(self, machine_id, slot, disk):
        self.call("change the medium", A_WHILE, media.change, machine_id, slot, disk)

    def define(self, machine):
        self.call("define the machine", LONG, self._define, machine)

    def _define(self, connection, machine, define=None):
        self.facts = found = self.facts or capabilities.find_out(connection)
        tpm.check(machine, found.tpm)
        firmware.check(machine, found.secure_boot)
        define = define or machines.define
        self._allow_neighbours(found, machine.nics)
        define(connection, machine, found.accelerated, found.bandwidth_limits, found.address_filters)

    def set_cards(self, machine_id, nics):
        self.call("change the machine's network", LONG, self._set_cards, machine_id, nics)

    def _set_cards(self, connection, machine_id, nics):
        self.facts = found = self.facts or capabilities.find_out(connection)
        self._allow_neighbours(found, nics)
        nic_devices.change(connection, machine_id, nics, found.bandwidth_limits, found.address_filters)

    def _allow_neighbours(self, found, nics):
        if self.filters_neighbours and found.address_filters:
            neighbours.allow(nics)

    def power(self, machine_id):
        return self.call("look at the machine", SOON, machines.power, machine_id)

    def start(self, machine_id):
        self.call("start the machine", A_WHILE, machines.start, machine_id)

    def shutdown(self, machine_id):
        if self.call("ask the machine to turn off", SOON, machines.is_on, machine_id):
            self.call("ask the machine to turn off", A_WHILE, machines.shutdown, machine_id, taken=TAKEN)

    def power_off(self, machine_id):
        self.call("turn the machine off", A_WHILE, machines.power_off, machine_id)

    def restart(self, machine_id):
        if not self.call("ask the machine to restart", SOON, machines.is_on, machine_id):
            raise Refused("The machine is off.", f"machine {machine_id}")
        self.call("ask the machine to restart", A_WHILE, machines.restart, machine_id, taken=TAKEN)

    def reset(self, machine_id):
        self.call("reset the machine", A_WHILE, machines.reset, machine_id)

    def suspend(self, machine_id):
        self.call("suspend the machine", A_WHILE, machines.suspend, machine_id)

    def resume(self, machine_id):
        self.call("resume the machine", A_WHILE, machines.resume, machine_id)

    def delete(self, machine_id):
        self.call("delete the machine", A_WHILE, self._delete, machine_id)

    def _delete(self, connection, machine_id):
        macs = machines.delete(connection, machine_id)
        if self.filters_neighbours:
            neighbours.forget(macs)

    def move(self, machine, target, progress=None):
        """It takes as long as the guest's memory and disks do: the deadline counts from when the move was last seen."""
        watch = None

        def carry(connection):
            nonlocal watch
            with target.lines.one() as there, self.lines.one() as line:
                target.facts = target.facts or capabilities.find_out(
                    there
                )  # which also brings the filters that cards name
                target._allow_neighbours(target.facts, machine.nics)
                watch = migration.Watch(line, machine.id, progress)
                try:
                    with watch:
                        migration.move(connection, there, machine, target.facts.bandwidth_limits)
                except libvirt.libvirtError as error:
                    if alive(there):
                        raise
                    raise Unreachable("The connection to the target was lost.", str(error)) from error

        try:
            self.call("move the machine", LONG, carry, heard=lambda: watch.heard if watch else 0.0)
        except Refused:
            if watch and watch.stopped_by:
                raise watch.stopped_by from None
            raise

    def copy_medium(self, medium, target, onto):
        def carry(connection):
            with target.lines.one() as there:
                migration.copy_medium(connection, there, medium, onto)

        self.call("copy the medium", LONG, carry)

    def drop_arrival(self, machine_id, disks, name=""):
        self.call("take back the move", A_WHILE, migration.drop_arrival, machine_id, disks, name)

    def describe(self, machine_id):
        return self.call("describe the machine", A_WHILE, unmanaged_machines.describe, machine_id)

    def adopt(self, machine):
        self.call("adopt the machine", LONG, self._define, machine, importing.adopt)

    def give_back(self, machine_id):
        self.call("give the machine back", A_WHILE, importing.give_back, machine_id)

    def console(self, machine_id, password):
        return self.call("open the screen", A_WHILE, vnc.console, machine_id, password, self.spec.uri)

    # --- disks that come and go

    def attach_disk(self, machine_id, disk):
        self.call("attach the disk", A_WHILE, hotplug.attach, machine_id, disk)

    def detach_disk(self, machine_id, pool, name):
        self.call("detach the disk", LONG, hotplug.detach, machine_id, pool, name)

    # --- overlays

    def lay_overlays(self, machine_id, disks):
        self.call("lay overlays over the disks", LONG, overlays.lay, machine_id, list(disks))

    def thaw_guest(self, machine_id):
        self.call("let the guest's file systems go on", A_WHILE, freezing.thaw, machine_id)

    def merge_overlay(self, machine_id, pool, name, progress=None):
        """It takes as long as it takes: the deadline counts from the last sign of progress."""
        moved, last = media.watched(progress)
        self.call("merge the overlay", LONG, overlays.merge, machine_id, pool, name, moved, heard=last)

    def drop_overlay(self, machine_id, pool, name):
        self.call("drop the overlay", A_WHILE, overlays.drop, machine_id, pool, name)

    # --- snapshots

    def take_snapshot(self, machine_id, name, memory=False):
        self.call("take the snapshot", MEMORY, snapshots.take, machine_id, name, memory)

    def revert_snapshot(self, machine_id, name, memory=False):
        self.call("return to the snapshot", MEMORY, snapshots.revert, machine_id, name, memory)

    def delete_snapshot(self, machine_id, name):
        self.call("delete the snapshot", MEMORY, snapshots.delete, machine_id, name)

    # --- inside the guest

    def agent_ping(self, machine_id):
        self.call("reach the guest agent", A_WHILE, guest_agent.ping, machine_id)

    def agents_answering(self, machine_ids, seconds=20.0):
        def ping_all(_):
            return self.pings.ping_all(machine_ids, seconds)

        return self.call("ping guest agents", A_WHILE, ping_all, heard=self.pings.heard)

    def agent_filesystems(self, machine_id):
        return self.call("ask the guest for its file systems", A_WHILE, guest_agent_status.filesystems, machine_id)

    def agent_addresses(self, machine_id):
        return self.call("ask the guest for its addresses", A_WHILE, guest_agent.addresses, machine_id)

    def agent_run(self, machine_id, command, stdin="", deadline=30):
        program = tuple(command)
        return self.call(
            "run the program in the guest", deadline + A_WHILE, guest_agent.run, machine_id, program, stdin, deadline
        )

    def agent_set_password(self, machine_id, user, password):
        self.call("set the password", A_WHILE, guest_agent.set_password, machine_id, user, password)


def libvirt_number(version: int) -> str:
    """libvirt writes 9.1.2 as 9001002."""
    return f"{version // 1_000_000}.{version // 1000 % 1000}.{version % 1000}"
