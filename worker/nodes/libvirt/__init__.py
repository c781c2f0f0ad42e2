"""The libvirt driver: QEMU/KVM on this machine or on any host that libvirt reaches (unix, ssh, tcp, tls).

Everything on a node is done by libvirt calls; no file of the node is opened. This class adds a deadline and the circuit
breaker to every call. What the calls do is in the other modules of this package.
"""

import contextlib
import socket
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import libvirt

from panel.core.messages import message
from worker.nodes.base import (
    BackupJob,
    BackupReader,
    Capabilities,
    CommandResult,
    Disk,
    DiskContent,
    Endpoint,
    FileSystem,
    HostUsage,
    Image,
    Machine,
    MachineDescription,
    MachineEventCallback,
    MachineStatus,
    Nic,
    NodeDriver,
    NodeError,
    NodeSpec,
    Pool,
    Power,
    Progress,
    Readable,
    Refused,
    SandboxNetwork,
    Seed,
    Unreachable,
    Writable,
    make_backup_name,
)
from worker.nodes.circuit_breaker import CircuitBreaker
from worker.nodes.libvirt import (
    backup_copies,
    backups,
    capabilities,
    channels,
    checkpoints,
    domain_stats,
    firmware,
    firmware_state,
    freezing,
    guest_agent,
    guest_agent_status,
    host_usage,
    hotplug,
    importing,
    machines,
    media,
    migration,
    neighbors,
    nic_devices,
    overlays,
    pools,
    sandbox_network,
    saved_state,
    screenshots,
    snapshots,
    tpm,
    unmanaged_machines,
    vnc,
)
from worker.nodes.libvirt.capabilities import ProbedCapabilities
from worker.nodes.libvirt.connection import ConnectionPool, close_in_background, is_alive
from worker.nodes.libvirt.errors import translate_errors
from worker.nodes.libvirt.events import EventStream

QUERY_TIMEOUT_SECONDS, CHANGE_TIMEOUT_SECONDS, LONG_CHANGE_TIMEOUT_SECONDS = 10.0, 45.0, 90.0
"""Deadlines in seconds: for a query, for a change (libvirt itself waits up to 30 for a busy machine), for probing what
the node can do."""

MEMORY_TRANSFER_TIMEOUT_SECONDS = 600.0
"""Seconds for operations that write or read a guest's whole memory."""

DISK_COPY_TIMEOUT_SECONDS = 3600.0
"""Seconds for operations that read and write a whole disk."""

AGENT_ACK_TIMEOUT_SECONDS = 1.0
"""Seconds after which a shutdown request counts as sent. libvirt waits up to a minute for the guest agent to obey."""


class LibvirtNode(NodeDriver):
    def __init__(self, spec: NodeSpec, data_dir: Path) -> None:
        super().__init__(spec, data_dir)
        self.connections = ConnectionPool(spec.uri)
        self.pinger = guest_agent_status.AgentPinger(self.connections)
        self.circuit = CircuitBreaker(spec.name)
        self.filters_neighbors = neighbors.is_possible(spec.uri)
        self.interface_macs = domain_stats.InterfaceMacs()
        self.facts: ProbedCapabilities | None = None
        """What the node can do. Probed again after the connection was lost, because the node may have been changed or
        repaired."""

    def call(self, action_label: str, deadline: float, work: Callable[..., Any], *args: Any, **circuit: Any) -> Any:
        """Run `work(connection, *args)` within the deadline. `action_label` completes "the hypervisor could not …"."""

        def run_work() -> Any:
            with self.connections.borrow() as live_connection, translate_errors(live_connection, action_label):
                return work(live_connection, *args)

        try:
            return self.circuit.run(run_work, deadline, **circuit)
        except Unreachable:
            self.facts = None
            raise

    # --- the node itself

    def capabilities(self) -> Capabilities:
        return self.call(message("say what it can do"), LONG_CHANGE_TIMEOUT_SECONDS, self._capabilities)

    def _capabilities(self, connection: libvirt.virConnect) -> Capabilities:
        self.facts = probed = capabilities.probe(connection)
        versions = format_version(connection.getLibVersion()), format_version(connection.getVersion())
        return Capabilities(
            version="libvirt {}, QEMU {}".format(*versions),
            cpu_cores=connection.getInfo()[2],
            memory=connection.getMemoryStats(libvirt.VIR_NODE_MEMORY_STATS_ALL_CELLS)["total"] * 1024,
            accelerated=probed.accelerated,
            acceleration_note=probed.acceleration_note,
            bandwidth_limits=probed.bandwidth_limits,
            address_filters=probed.address_filters,
            tpm=probed.tpm,
            secure_boot=probed.secure_boot,
            pools=pools.list_pools(connection),
        )

    def ping(self) -> None:
        self.call(message("answer"), QUERY_TIMEOUT_SECONDS, libvirt.virConnect.getLibVersion, probe=True)

    def machines(self) -> list[MachineStatus]:
        return self.call(
            message("list its machines"), QUERY_TIMEOUT_SECONDS, domain_stats.list_machines, self.interface_macs
        )

    def host_usage(self) -> HostUsage:
        return self.call(message("report its load"), QUERY_TIMEOUT_SECONDS, host_usage.read_host_usage)

    def watch_events(self, event: MachineEventCallback, stop: Callable[[], bool]) -> None:
        stream: EventStream = self.circuit.run(self._open_event_stream, QUERY_TIMEOUT_SECONDS)
        try:
            stream.run(event, stop)
        finally:
            close_in_background(stream.connection)

    def _open_event_stream(self) -> EventStream:
        live_connection = self.connections.open()
        with translate_errors(live_connection, "tell of changes"):
            return EventStream(live_connection)

    def close(self) -> None:
        self.connections.close()

    # --- pools, images, disks

    def prepare_pool(self, name: str, path: str) -> Pool:
        return self.call(message("prepare its storage"), CHANGE_TIMEOUT_SECONDS, pools.prepare_pool, name, path)

    def has_image(self, pool: str, image: Image) -> bool:
        return self.call(message("look for the image"), QUERY_TIMEOUT_SECONDS, pools.has_image, pool, image)

    def put_image(self, pool: str, image: Image, progress: Progress | None = None) -> None:
        """Upload the image. The deadline counts from the last byte that moved, because the duration depends on the
        size."""
        report, get_last_report_at = media.track_progress(progress)
        self.call(
            message("take the image"),
            CHANGE_TIMEOUT_SECONDS,
            pools.put_image,
            pool,
            image,
            report,
            last_activity=get_last_report_at,
        )

    def delete_image(self, pool: str, name: str) -> None:
        self.call(message("delete the image"), CHANGE_TIMEOUT_SECONDS, pools.delete_image, pool, name)

    def create_disk(self, disk: Disk, image: Image | None = None, progress: Progress | None = None) -> None:
        self.call(message("create the disk"), CHANGE_TIMEOUT_SECONDS, pools.create_disk, disk, image)

    def grow_disk(self, disk: Disk, machine_id: str | None = None) -> None:
        self.call(message("grow the disk"), CHANGE_TIMEOUT_SECONDS, pools.grow_disk, disk, machine_id)

    def delete_disk(self, pool: str, name: str) -> None:
        self.call(message("delete the disk"), CHANGE_TIMEOUT_SECONDS, pools.delete_disk, pool, name)

    def disks(self, pool: str) -> list[Disk]:
        return self.call(message("list its disks"), CHANGE_TIMEOUT_SECONDS, pools.list_disks, pool)

    def create_seed(self, pool: str, name: str, seed: Seed) -> Disk:
        return self.call(
            message("take the first-boot configuration"), CHANGE_TIMEOUT_SECONDS, pools.create_seed, pool, name, seed
        )

    def upload_media(
        self,
        pool: str,
        name: str,
        source: Readable,
        size: int,
        progress: Progress | None = None,
        *,
        is_kernel: bool = False,
    ) -> Disk:
        report, get_last_report_at = media.track_progress(progress)
        return self.call(
            message("take the medium"),
            CHANGE_TIMEOUT_SECONDS,
            media.upload_media,
            pool,
            name,
            source,
            size,
            report,
            is_kernel,
            last_activity=get_last_report_at,
        )

    def copy_disk(self, source: Disk, target: Disk, progress: Progress | None = None) -> None:
        copy_progress = media.CopyProgress(
            lambda: self.call(message("look at the copy"), QUERY_TIMEOUT_SECONDS, media.get_copied_bytes, target),
            progress,
        )
        self.call(
            message("copy the disk"),
            CHANGE_TIMEOUT_SECONDS,
            media.copy_disk,
            source,
            target,
            last_activity=copy_progress,
        )

    def read_disk(self, disk: Disk, target: Writable, progress: Progress | None = None) -> None:
        report, get_last_report_at = media.track_progress(progress)
        self.call(
            message("read the disk"),
            CHANGE_TIMEOUT_SECONDS,
            media.read_disk,
            disk,
            target,
            report,
            last_activity=get_last_report_at,
        )

    # --- machines

    def set_media(self, machine_id: str, slot: str, disk: Disk | None) -> None:
        self.call(message("change the medium"), CHANGE_TIMEOUT_SECONDS, media.change_media, machine_id, slot, disk)

    def define(self, machine: Machine) -> None:
        self.call(message("define the machine"), LONG_CHANGE_TIMEOUT_SECONDS, self._define, machine)

    def _define(
        self, connection: libvirt.virConnect, machine: Machine, define: Callable[..., None] | None = None
    ) -> None:
        self.facts = probed = self.facts or capabilities.probe(connection)
        tpm.ensure_supported(machine, probed.tpm)
        firmware.ensure_supported(machine, probed.secure_boot)
        sandbox_network.ensure_filterable(machine.nics, probed.address_filters)
        define = define or machines.define
        self._allow_neighbors(probed, machine.nics)
        define(connection, machine, probed)

    def ensure_sandbox_network(self, network: SandboxNetwork) -> None:
        label = message("prepare the network of micro VMs")
        self.call(label, CHANGE_TIMEOUT_SECONDS, sandbox_network.ensure_network, network)

    def update_nics(self, machine_id: str, nics: tuple[Nic, ...]) -> None:
        self.call(
            message("change the machine's network"), LONG_CHANGE_TIMEOUT_SECONDS, self._update_nics, machine_id, nics
        )

    def _update_nics(self, connection: libvirt.virConnect, machine_id: str, nics: tuple[Nic, ...]) -> None:
        self.facts = probed = self.facts or capabilities.probe(connection)
        self._allow_neighbors(probed, nics)
        nic_devices.update_nics(connection, machine_id, nics, probed.bandwidth_limits, probed.address_filters)

    def _allow_neighbors(self, probed: ProbedCapabilities, nics: Iterable[Nic]) -> None:
        if self.filters_neighbors and probed.address_filters:
            neighbors.allow_advertisements(nics)

    def power(self, machine_id: str) -> Power:
        return self.call(message("look at the machine"), QUERY_TIMEOUT_SECONDS, machines.power, machine_id)

    def start(self, machine_id: str) -> None:
        self.call(message("start the machine"), CHANGE_TIMEOUT_SECONDS, machines.start, machine_id)

    def shutdown(self, machine_id: str) -> None:
        if self.call(message("ask the machine to turn off"), QUERY_TIMEOUT_SECONDS, machines.is_on, machine_id):
            self.call(
                message("ask the machine to turn off"),
                CHANGE_TIMEOUT_SECONDS,
                machines.shutdown,
                machine_id,
                acknowledged_after=AGENT_ACK_TIMEOUT_SECONDS,
            )

    def power_off(self, machine_id: str) -> None:
        self.call(message("turn the machine off"), CHANGE_TIMEOUT_SECONDS, machines.power_off, machine_id)

    def restart(self, machine_id: str) -> None:
        if not self.call(message("ask the machine to restart"), QUERY_TIMEOUT_SECONDS, machines.is_on, machine_id):
            raise Refused(message("The machine is off."), f"machine {machine_id}")
        self.call(
            message("ask the machine to restart"),
            CHANGE_TIMEOUT_SECONDS,
            machines.restart,
            machine_id,
            acknowledged_after=AGENT_ACK_TIMEOUT_SECONDS,
        )

    def reset(self, machine_id: str) -> None:
        self.call(message("reset the machine"), CHANGE_TIMEOUT_SECONDS, machines.reset, machine_id)

    def suspend(self, machine_id: str) -> None:
        self.call(message("suspend the machine"), CHANGE_TIMEOUT_SECONDS, machines.suspend, machine_id)

    def resume(self, machine_id: str) -> None:
        self.call(message("resume the machine"), CHANGE_TIMEOUT_SECONDS, machines.resume, machine_id)

    def save(self, machine_id: str) -> None:
        self.call(message("save the machine"), MEMORY_TRANSFER_TIMEOUT_SECONDS, saved_state.save, machine_id)

    def has_saved_state(self, machine_id: str) -> bool:
        return self.call(message("look at the machine"), QUERY_TIMEOUT_SECONDS, saved_state.is_present, machine_id)

    def delete_saved_state(self, machine_id: str) -> None:
        self.call(message("delete the saved state"), CHANGE_TIMEOUT_SECONDS, saved_state.delete, machine_id)

    def open_channel(self, machine_id: str) -> socket.socket:
        return self.circuit.run(lambda: channels.open_channel(self.connections, machine_id), QUERY_TIMEOUT_SECONDS)

    def delete(self, machine_id: str) -> None:
        self.call(message("delete the machine"), CHANGE_TIMEOUT_SECONDS, self._delete, machine_id)

    def _delete(self, connection: libvirt.virConnect, machine_id: str) -> None:
        macs = machines.delete(connection, machine_id)
        if self.filters_neighbors:
            neighbors.delete_rules(macs)

    def migrate(self, machine: Machine, target: Self, progress: Progress | None = None) -> None:
        """Move the machine. The deadline counts from the last answer to a poll of the migration's progress."""
        monitor = None

        def run_migration(connection: libvirt.virConnect) -> None:
            nonlocal monitor
            with target.connections.borrow() as target_connection, self.connections.borrow() as live_connection:
                target.facts = target.facts or capabilities.probe(
                    target_connection
                )  # this also defines the filters that NICs refer to
                target._allow_neighbors(target.facts, machine.nics)
                monitor = migration.MigrationMonitor(live_connection, machine.id, progress)
                try:
                    with monitor:
                        migration.migrate(connection, target_connection, machine, target.facts.bandwidth_limits)
                except libvirt.libvirtError as error:
                    if is_alive(target_connection):
                        raise
                    raise Unreachable(message("The connection to the target was lost."), str(error)) from error

        try:
            self.call(
                message("move the machine"),
                LONG_CHANGE_TIMEOUT_SECONDS,
                run_migration,
                last_activity=lambda: monitor.last_answer_at if monitor else 0.0,
            )
        except Refused:
            if monitor and monitor.stopped_by:
                raise monitor.stopped_by from None
            raise

    def copy_media(self, medium: Disk, target: Self, target_disk: Disk) -> None:
        def run_copy(connection: libvirt.virConnect) -> None:
            with target.connections.borrow() as target_connection:
                migration.copy_media(connection, target_connection, medium, target_disk)

        self.call(message("copy the medium"), LONG_CHANGE_TIMEOUT_SECONDS, run_copy)

    def clean_up_target(self, machine_id: str, disks: Iterable[tuple[str, str]], name: str = "") -> None:
        self.call(
            message("take back the move"), CHANGE_TIMEOUT_SECONDS, migration.clean_up_target, machine_id, disks, name
        )

    def describe_machine(self, machine_id: str) -> MachineDescription:
        return self.call(
            message("describe the machine"), CHANGE_TIMEOUT_SECONDS, unmanaged_machines.describe_machine, machine_id
        )

    def import_machine(self, machine: Machine) -> None:
        self.call(
            message("adopt the machine"), LONG_CHANGE_TIMEOUT_SECONDS, self._define, machine, importing.import_machine
        )

    def revert_import(self, machine_id: str) -> None:
        self.call(message("give the machine back"), CHANGE_TIMEOUT_SECONDS, importing.revert_import, machine_id)

    def console(self, machine_id: str, password: str) -> Endpoint:
        return self.call(
            message("open the console"), CHANGE_TIMEOUT_SECONDS, vnc.open_console, machine_id, password, self.spec.uri
        )

    def screenshot(self, machine_id: str) -> bytes:
        return self.call(message("read the screen"), CHANGE_TIMEOUT_SECONDS, screenshots.take_screenshot, machine_id)

    # --- attached disks

    def attach_disk(self, machine_id: str, disk: Disk) -> None:
        self.call(message("attach the disk"), CHANGE_TIMEOUT_SECONDS, hotplug.attach, machine_id, disk)

    def detach_disk(self, machine_id: str, pool: str, name: str) -> None:
        self.call(message("detach the disk"), LONG_CHANGE_TIMEOUT_SECONDS, hotplug.detach, machine_id, pool, name)

    # --- overlays

    def create_overlays(self, machine_id: str, disks: Iterable[Disk]) -> None:
        self.call(
            message("create overlays for the disks"),
            LONG_CHANGE_TIMEOUT_SECONDS,
            overlays.create_overlays,
            machine_id,
            list(disks),
        )

    def thaw_guest(self, machine_id: str) -> None:
        self.call(message("thaw the guest's file systems"), CHANGE_TIMEOUT_SECONDS, freezing.thaw, machine_id)

    def commit_overlay(self, machine_id: str, pool: str, name: str, progress: Progress | None = None) -> None:
        """Merge the overlay. The deadline counts from the last progress."""
        report, get_last_report_at = media.track_progress(progress)
        self.call(
            message("merge the overlay"),
            LONG_CHANGE_TIMEOUT_SECONDS,
            overlays.commit_overlay,
            machine_id,
            pool,
            name,
            report,
            last_activity=get_last_report_at,
        )

    def discard_overlay(self, machine_id: str, pool: str, name: str) -> None:
        self.call(message("drop the overlay"), CHANGE_TIMEOUT_SECONDS, overlays.discard_overlay, machine_id, pool, name)

    # --- snapshots

    def create_snapshot(self, machine_id: str, name: str, memory: bool = False) -> None:
        self.call(
            message("take the snapshot"), MEMORY_TRANSFER_TIMEOUT_SECONDS, snapshots.create, machine_id, name, memory
        )

    def revert_snapshot(self, machine_id: str, name: str, memory: bool = False) -> None:
        self.call(
            message("return to the snapshot"),
            MEMORY_TRANSFER_TIMEOUT_SECONDS,
            snapshots.revert,
            machine_id,
            name,
            memory,
        )

    def delete_snapshot(self, machine_id: str, name: str) -> None:
        self.call(message("delete the snapshot"), MEMORY_TRANSFER_TIMEOUT_SECONDS, snapshots.delete, machine_id, name)

    # --- backups

    def begin_backup(
        self,
        machine_id: str | None,
        disks: Iterable[Disk],
        checkpoint: str,
        previous: str | None = None,
        progress: Progress | None = None,
        bytes_per_second: int = 0,
        fully_read: Collection[str] = (),
    ) -> BackupJob:
        included = list(disks)
        if machine_id is None or not self.call(
            message("look at the machine"), QUERY_TIMEOUT_SECONDS, machines.is_on, machine_id
        ):
            return self._copy_stopped_disks(machine_id, included, progress)
        report, get_last_report_at = media.track_progress(progress)
        return self.call(
            message("back the machine up"),
            LONG_CHANGE_TIMEOUT_SECONDS,
            backups.run,
            machine_id,
            included,
            checkpoint,
            previous,
            report,
            bytes_per_second,
            fully_read,
            last_activity=get_last_report_at,
        )

    def _copy_stopped_disks(self, machine_id: str | None, disks: list[Disk], progress: Progress | None) -> BackupJob:
        try:
            for disk in disks:
                copy = replace(disk, name=make_backup_name(disk.name))
                get_size = partial(
                    self.call, message("look at the copy"), QUERY_TIMEOUT_SECONDS, media.get_copied_bytes, copy
                )
                self.call(
                    message("copy the disk"),
                    CHANGE_TIMEOUT_SECONDS,
                    backups.copy_stopped_disk,
                    disk,
                    last_activity=media.CopyProgress(get_size, progress),
                )
        except BaseException:
            with contextlib.suppress(NodeError):
                self.end_backup(machine_id, [(disk.pool, disk.name) for disk in disks])
            raise
        return BackupJob("stopped", None, {disk.name: "stopped" for disk in disks})

    def open_backup(self, machine_id: str | None, disk: Disk) -> BackupReader:
        call = partial(self.call, message("read the disk"), CHANGE_TIMEOUT_SECONDS)
        return backup_copies.CopyReader(disk, call)

    def end_backup(self, machine_id: str | None, disks: Iterable[tuple[str, str]]) -> None:
        self.call(message("end the backup"), LONG_CHANGE_TIMEOUT_SECONDS, backups.end_job, machine_id, list(disks))

    def delete_checkpoints(self, machine_id: str, retained: Iterable[str] = ()) -> None:
        self.call(
            message("delete checkpoints"),
            LONG_CHANGE_TIMEOUT_SECONDS,
            checkpoints.delete_of_machine,
            machine_id,
            list(retained),
        )

    def write_disk(self, disk: Disk, content: DiskContent, progress: Progress | None = None) -> None:
        report, get_last_report_at = media.track_progress(progress)
        self.call(
            message("write the disk"),
            CHANGE_TIMEOUT_SECONDS,
            media.write_disk,
            disk,
            content,
            report,
            last_activity=get_last_report_at,
        )

    # --- state beside the disks

    def read_firmware_state(self, machine_id: str) -> dict[str, bytes]:
        label = message("read the state of the firmware")
        return self.call(label, LONG_CHANGE_TIMEOUT_SECONDS, firmware_state.read, machine_id)

    def write_firmware_state(self, machine_id: str, state: dict[str, bytes]) -> None:
        label = message("write the state of the firmware")
        self.call(label, LONG_CHANGE_TIMEOUT_SECONDS, firmware_state.write, machine_id, state)

    # --- inside the guest

    def agent_ping(self, machine_id: str) -> None:
        self.call(message("reach the guest agent"), CHANGE_TIMEOUT_SECONDS, guest_agent.ping, machine_id)

    def ping_agents(self, machine_ids: Iterable[str], seconds: float = 20.0) -> dict[str, bool]:
        def ping_all(_: libvirt.virConnect) -> dict[str, bool]:
            return self.pinger.ping_all(machine_ids, seconds)

        return self.call(
            message("ping guest agents"), CHANGE_TIMEOUT_SECONDS, ping_all, last_activity=self.pinger.get_last_answer_at
        )

    def agent_filesystems(self, machine_id: str) -> list[FileSystem]:
        return self.call(
            message("ask the guest for its file systems"),
            CHANGE_TIMEOUT_SECONDS,
            guest_agent_status.list_filesystems,
            machine_id,
        )

    def agent_addresses(self, machine_id: str) -> dict[str, list[str]]:
        return self.call(
            message("ask the guest for its addresses"), CHANGE_TIMEOUT_SECONDS, guest_agent.list_addresses, machine_id
        )

    def agent_run(
        self, machine_id: str, command: Iterable[str], stdin: str = "", deadline: float = 30
    ) -> CommandResult:
        program = tuple(command)
        return self.call(
            message("run the program in the guest"),
            deadline + CHANGE_TIMEOUT_SECONDS,
            guest_agent.run,
            machine_id,
            program,
            stdin,
            deadline,
        )

    def agent_set_password(self, machine_id: str, user: str, password: str) -> None:
        self.call(
            message("set the password"), CHANGE_TIMEOUT_SECONDS, guest_agent.set_password, machine_id, user, password
        )


def format_version(version: int) -> str:
    """Return libvirt's version number as text: 9001002 is 9.1.2."""
    return f"{version // 1_000_000}.{version // 1000 % 1000}.{version % 1000}"
