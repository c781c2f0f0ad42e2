"""The contract between the panel and a machine host, in prose. Every driver fulfils it; one contract test checks them
all.

A *node* is one hypervisor. A driver talks to it and keeps no state of its own: whatever a method leaves behind is on
the node and can be found again by `machines()` and `disks()`. The panel chooses every name, so a call that was
interrupted can be repeated with the same name.

Rules for every method:

* **Names and ids come from the panel.** A machine is found by its `id` (the instance's UUID), a disk by pool and name.
* **Methods are idempotent.** Deleting what does not exist, starting what runs, stopping what is off: success, no error.
  Creating something replaces what an interrupted attempt left incomplete.
* **An impossible request is `Refused`**: resetting, suspending or resuming a machine that is off, an unknown program in
  a guest. Defining a machine with a disk that does not exist, or anything in a pool that does not exist, is
  `NotOnNode`.
* **After success** the documented state is true and durable on the node.
* **After `Refused`, `NotOnNode`, `NoCapacity`** the node rejected the call, and nothing of the attempt is left.
* **After `Unreachable`** the node did not answer in time: the outcome is unknown, and the call may still take effect.
  The caller must query the node (`machines`, `disks`) before it relies on either outcome.
* **Every call ends.** A driver gives each call a deadline of its own; an unresponsive node costs the caller at most
  that. After repeated timeouts the node's circuit opens: calls then fail at once with `Unreachable` until a probe
  succeeds. A driver may work, and call `progress`, in another thread than the caller's.
* **Errors have two texts**: `str(error)` is a sentence for a customer, without paths, addresses or host names;
  `error.detail` is for operators.
* Drivers are safe to call from several threads.

ISO media are entries of `Machine.media`, changed by `set_media`; rescue is a `define` of the same machine with another
first disk. Extensions have a place: snapshots and live-snapshot sessions add methods over `Disk`s with the same naming
rule; a backup reads disks through a `BackupReader`; migration is `define` on the target plus one transfer method;
networks are named on `Nic.network` and created by methods of their own.
"""

from __future__ import annotations

import enum
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

GiB = 1024**3


def make_overlay_name(name: str) -> str:
    """Return the name of the overlay of a disk of that name."""
    return f"{name}.forge"


CHANNEL_NAME = "org.panel.sandbox.0"
"""The virtio-serial port of `Machine.channel`. A guest with udev has it as
/dev/virtio-ports/org.panel.sandbox.0."""

MAX_UNREAD_CHANNEL_BYTES = 16 * 1024**2
"""Bytes of a guest that may wait for the caller of `open_channel`. A channel with more ends."""

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in total) during a long transfer."""


class NodeError(Exception):
    """An operation on the node failed. The text is for customers; `detail` is for operators."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail or message


class Unreachable(NodeError):
    """The node did not answer in time. Whether the call took effect is unknown."""


class Refused(NodeError):
    """The node rejected the call. Nothing was changed."""


class NotOnNode(NodeError):
    """The named machine, disk or image is not on the node."""


class NoCapacity(Refused):
    """The node has too little storage or memory. Nothing was changed."""


class NoTicket(Refused):
    """The node's cluster issued no ticket for the VNC console. Nothing was changed."""


class AgentUnavailable(NodeError):
    """The machine runs, but the guest agent inside it does not answer. Nothing was changed."""


class Power(enum.StrEnum):
    """The power state that the node reports. `paused` counts as powered on: the memory is kept."""

    on = "on"
    off = "off"
    paused = "paused"


@dataclass(frozen=True)
class NodeSpec:
    """How to reach a node: the fields of a hypervisor row that a driver needs."""

    id: str
    name: str
    driver: str
    uri: str


@dataclass(frozen=True)
class Pool:
    """A directory for disks on a node."""

    name: str
    path: str
    capacity: int = 0
    free: int = 0
    """Bytes, as the node reports them."""


@dataclass(frozen=True)
class Capabilities:
    """What a node is and can do, as probed. `accelerated` is true only after a guest really ran under KVM."""

    version: str
    cpu_cores: int
    memory: int
    """Bytes."""
    accelerated: bool
    acceleration_note: str
    """Why guests run with or without hardware acceleration: a sentence for operators."""
    bandwidth_limits: bool
    """Whether the node can enforce the speed limits of a `Nic`."""
    address_filters: bool
    """Whether the node can stop guests from using addresses that are not theirs."""
    pools: tuple[Pool, ...] = ()
    screen_tickets: bool = False
    """Whether the node belongs to a cluster that issues, or denies, a ticket for each opening of a VNC console."""
    tpm: bool = False
    """Whether the node can give a machine a TPM."""
    secure_boot: bool = False
    """Whether the node has a firmware with secure boot for machines."""


@dataclass(frozen=True)
class Image:
    """A disk image as the panel stores it. `name` is unique for exactly these bytes (it contains the checksum)."""

    name: str
    path: Path
    """The qcow2 file on the panel's side."""
    size: int
    """Bytes of that file."""


@dataclass(frozen=True)
class Disk:
    """A disk on the node, by pool and name."""

    pool: str
    name: str
    size: int
    """Bytes the guest sees."""


@dataclass(frozen=True)
class FirewallRule:
    """Connections that are allowed, with the packets that answer them."""

    direction: str
    """`in` (to the guest) or `out`."""
    family: int
    """4 or 6."""
    protocol: str = "all"
    """`tcp`, `udp`, `icmp` (of the family) or `all`."""
    ports: tuple[int, int] | None = None
    """The first and last destination port, for `tcp` and `udp`; None allows all."""
    network: str | None = None
    """The network of the peer; None allows any."""


SANDBOX_NETWORK_NAME = "sandboxes"
"""The node's network of micro VMs (`ensure_sandbox_network`)."""


@dataclass(frozen=True)
class SandboxNetwork:
    """A network of a node from which guests only connect out, over IPv4 and by NAT."""

    cidr: str
    """Its addresses; the first one is the node's."""
    refused: tuple[str, ...] = ()
    """IPv4 networks to which none of its guests may send, whatever `Egress` says."""


@dataclass(frozen=True)
class Egress:
    """Where a guest may send to: everywhere, except for `denied`, over which `allowed` wins. IPv4 networks."""

    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()


@dataclass(frozen=True)
class Nic:
    """A NIC. The guest may send only from `mac`, `addresses` and `prefixes`; rates are in Mbit/s, 0 is unlimited."""

    mac: str
    network: str
    addresses: tuple[str, ...] = ()
    inbound_mbps: int = 0
    """What the guest may receive."""
    outbound_mbps: int = 0
    """What the guest may send."""
    prefixes: tuple[str, ...] = ()
    """Networks that are routed to the guest."""
    allowed: tuple[FirewallRule, ...] | None = None
    """None: no firewall. Otherwise only these connections may begin, in either direction; neighbor discovery always
    passes, and so do errors about allowed connections. A packet from the node itself, or one that the node routes, may
    reach the guest although no rule allows it, but the guest's answer is dropped, so no connection is made."""
    mail: bool = True
    """Whether the guest may connect to port 25 of others."""
    connected: bool = True
    """Whether the link is up; while it is down no packet passes."""
    egress: Egress | None = None
    """Makes the NIC one of the sandbox network, with static addresses: no packet passes to or from other guests, and
    none over IPv6. A node that cannot filter refuses the definition."""


@dataclass(frozen=True)
class Seed:
    """First-boot configuration (cloud-init NoCloud): the three files, as text."""

    meta_data: str
    user_data: str
    network_config: str


@dataclass(frozen=True)
class Kernel:
    """A kernel that the node loads itself, without a boot loader. Both files are volumes, as by `upload_media` with
    `is_kernel`, and machines may share them."""

    image: Disk
    initrd: Disk
    options: str = ""
    """The kernel's command line."""


@dataclass(frozen=True)
class Machine:
    """Everything that defines a machine on a node. Defining the same id again replaces the definition."""

    id: str
    name: str
    cpu_cores: int
    memory_mb: int
    disks: tuple[Disk, ...]
    nics: tuple[Nic, ...] = ()
    media: dict[str, Disk] = field(default_factory=dict)
    """Optical drives: slot (`seed`, `primary`, `secondary`) → the medium in it."""
    boot: tuple[str, ...] = ("disk",)
    """The boot order, of `disk`, `cdrom`, `network`."""
    vnc: bool = True
    vnc_password: str = ""
    topology: tuple[int, int, int] | None = None
    """Sockets, cores of a socket, threads of a core: multiplied they are `cpu_cores`. None: each core is a socket."""
    tpm: bool = False
    """A TPM 2.0. A node that cannot provide one refuses the definition. Its state is kept until the machine is deleted,
    also while a definition has no TPM."""
    secure_boot: bool = False
    """UEFI with secure boot instead of a BIOS. A node without such a firmware refuses the definition. The NVRAM is kept
    like the TPM's state; a machine with NVRAM cannot take snapshots."""
    kernel: Kernel | None = None
    """Makes the machine a micro VM: the node loads this kernel, and the machine has few devices: disks, NICs, drives
    for its media only, a serial port and the guest agent's channel, but no screen, keyboard or USB. `boot` and `vnc`
    mean nothing then, and secure boot is refused."""
    channel: bool = False
    """A byte stream between guest and panel besides the guest agent's (`CHANNEL_NAME`, `open_channel`)."""
    cpu_quota: int = 0
    """Percent of one core of the node that the machine may use at most; 0 is unlimited."""


@dataclass(frozen=True)
class MachineStatus:
    """One machine as the node reports it, with the counters that grow while it runs."""

    id: str
    name: str
    power: Power
    cpu_seconds: float = 0.0
    memory_used: int = 0
    """Bytes of host memory."""
    received: dict[str, int] = field(default_factory=dict)
    """MAC → bytes the guest received since it was started."""
    sent: dict[str, int] = field(default_factory=dict)
    """MAC → bytes the guest sent since it was started."""
    disk_read: int = 0
    disk_written: int = 0
    disk_reads: int = 0
    disk_writes: int = 0
    """Operations on all its disks since it was started."""
    guest_memory: int | None = None
    """Bytes in use as the guest itself reports them; None when it does not."""


@dataclass(frozen=True)
class HostUsage:
    """What everything on the node uses together: its machines and the host itself."""

    busy_seconds: float
    """Time that the processors worked since the host was started; it grows. On a simulated node it decreases when a
    machine stops."""
    total_seconds: float
    """Time that the processors worked or were idle since then."""
    memory_used: int
    """Bytes, without buffers and page cache."""


@dataclass(frozen=True)
class DiskDescription:
    """A disk of an unmanaged machine."""

    device: str
    """The device name in the machine: `vda`."""
    name: str
    """The name in its pool; the path when it is in no pool."""
    pool: str | None = None
    """None: the disk is in no pool of the node."""
    size: int = 0
    """Bytes the guest sees."""
    fault: str | None = None
    """Why a machine of the panel cannot have this disk as it is, completing "the disk …"; None when it can."""


@dataclass(frozen=True)
class MachineDescription:
    """A machine as it is defined on the node, whoever created it."""

    id: str
    name: str
    power: Power
    cpu_cores: int
    memory_mb: int
    disks: tuple[DiskDescription, ...] = ()
    """Without optical drives; the first boot disk comes first."""
    nics: tuple[Nic, ...] = ()
    """With MAC and network only."""
    tpm: bool = False
    secure_boot: bool = False
    faults: tuple[str, ...] = ()
    """What `import_machine` would not preserve, in sentences for operators."""


@dataclass(frozen=True)
class Endpoint:
    """The address of a running machine's VNC console, as seen from the panel."""

    host: str
    port: int
    password: str
    via: str | None = None
    """`ssh://user@host:22`: the SSH server through which `host` is reached; `host` is then the node's loopback or an
    address that the node reaches. The panel's own key and known hosts apply, unless `?keyfile=` names a key. None:
    `host` is reached directly."""


@dataclass(frozen=True)
class CommandResult:
    """The result of a command that ran inside a guest."""

    exit_code: int
    output: str


@dataclass(frozen=True)
class FileSystem:
    """A file system that a guest has mounted."""

    mountpoint: str
    kind: str
    """`ext4`, `vfat`, `NTFS`."""
    size: int
    used: int
    """Bytes."""


MachineEventCallback = Callable[[str, Power | None], None]
"""Called with a machine's id and its power state; None when the machine was removed."""


class Readable(Protocol):
    """Where a driver reads bytes: at most `size` of them, none at the end."""

    def read(self, size: int, /) -> bytes: ...


class Writable(Protocol):
    """Where a driver writes bytes."""

    def write(self, data: bytes, /) -> object: ...


@dataclass(frozen=True)
class Extent:
    """A range of bytes of a disk."""

    offset: int
    length: int


@dataclass(frozen=True)
class BackupJob:
    """A backup that has begun."""

    consistency: str
    """`filesystem`: the guest's file systems were frozen at that moment; `crash`: as after a power failure; `stopped`:
    no guest ran."""
    checkpoint: str | None
    """The checkpoint from which a later job can read what has changed; None: the node has none of this moment."""
    full_read_reasons: dict[str, str | None]
    """Disk → why it must be read completely, or None when its reader lists what has changed: `no_checkpoint` (the
    machine does not have it), `broken_bitmap` (what has changed since is not known), `stopped`, or `requested`."""


def make_backup_name(name: str) -> str:
    """Return the name of the volume that the node stores during a backup of the disk of that name."""
    return f"{name}.backup"


class BackupReader(ABC):
    """One disk of a backup job, as it was when the job began. For one thread. After a failure it is unusable."""

    size: int

    @abstractmethod
    def list_extents(self, offset: int, length: int) -> list[Extent]:
        """Return the extents within the range that have changed since the previous checkpoint, or of a disk that must
        be read completely those that are not zero, in ascending order. Each begins at a multiple of 64 KiB. Extents may
        be larger than necessary."""

    @abstractmethod
    def read(self, extents: Iterable[Extent], write: Callable[[int, bytes | bytearray], None]) -> None:
        """Read extents that `list_extents` returned, in ascending order, and call `write(offset, data)` for their bytes
        in that order. Ranges of zeros may be left out. An exception of `write` ends the reading and is raised here."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection to the node. The job goes on."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class DiskContent(Protocol):
    """The content for a new disk. What is in no extent is zero."""

    def list_extents(self) -> Iterator[Extent]:
        """Yield extents in ascending order, without overlaps. Each begins at a multiple of 64 KiB, and ends at one or
        at the end of the disk. May be called more than once."""

    def read(self) -> Iterator[bytes]:
        """Yield the bytes of each extent."""


class NodeDriver(ABC):
    """One hypervisor, reached through one driver."""

    def __init__(self, spec: NodeSpec, data_dir: Path) -> None:
        self.spec = spec
        self.data_dir = data_dir

    # --- the node itself

    @abstractmethod
    def capabilities(self) -> Capabilities:
        """Return what the node is and can do. This may probe (run a probe guest), so it may take some seconds; it
        leaves nothing behind. Called when a node is added or checked, not while a customer waits."""

    @abstractmethod
    def ping(self) -> None:
        """Return when the node answers; raise `Unreachable` otherwise. Cheap; success closes an open circuit."""

    @abstractmethod
    def machines(self) -> list[MachineStatus]:
        """Return every machine on the node, unmanaged ones included, in one bulk call however many there are."""

    @abstractmethod
    def host_usage(self) -> HostUsage:
        """Return what the whole node uses. Cheap, and leaves nothing behind."""

    @abstractmethod
    def watch_events(self, event: MachineEventCallback, stop: Callable[[], bool]) -> None:
        """Call `event` for each change of power state and each removal, within a second or two, until `stop()` is true.
        Raises `Unreachable` when the connection to the node is lost; the caller then calls again. Events may repeat and
        may be lost: the caller also polls `machines`."""

    @abstractmethod
    def close(self) -> None:
        """Close connections. The node can be used again afterwards: it reconnects."""

    # --- pools, images, disks

    @abstractmethod
    def prepare_pool(self, name: str, path: str) -> Pool:
        """After success a pool of that name has its disks in that directory, also after restarts of the node. Several
        callers may prepare it at once."""

    @abstractmethod
    def has_image(self, pool: str, image: Image) -> bool:
        """Return whether the complete image is in the pool. An interrupted transfer does not count."""

    @abstractmethod
    def put_image(self, pool: str, image: Image, progress: Progress | None = None) -> None:
        """After success the complete image is in the pool and disks can be created from it; when it was there, nothing
        is transferred. After failure the pool holds no part of it that `has_image` would count."""

    @abstractmethod
    def delete_image(self, pool: str, name: str) -> None:
        """After success the pool does not hold the image. Raises `Refused` while a disk is based on it."""

    @abstractmethod
    def create_disk(self, disk: Disk, image: Image | None = None, progress: Progress | None = None) -> None:
        """After success the disk exists with that size: a copy-on-write child of the image, or blank. An existing disk
        of that name is replaced, so the caller must make sure that no machine runs on it. After failure there is no
        disk of that name."""

    @abstractmethod
    def grow_disk(self, disk: Disk, machine_id: str | None = None) -> None:
        """After success the disk is at least `disk.size` bytes; the running machine that uses it sees the new size at
        once. A disk never shrinks: a smaller size changes nothing."""

    @abstractmethod
    def delete_disk(self, pool: str, name: str) -> None:
        """After success no disk or seed of that name is in the pool."""

    @abstractmethod
    def disks(self, pool: str) -> list[Disk]:
        """Return every disk, image and seed in the pool, with the size that a guest sees."""

    @abstractmethod
    def create_seed(self, pool: str, name: str, seed: Seed) -> Disk:
        """After success a small read-only medium with the NoCloud files is in the pool; one of that name is
        replaced."""

    @abstractmethod
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
        """After success `size` bytes of `source` are in the pool under that name, unchanged; an existing volume of that
        name is replaced. An exception of `source.read` ends the transfer and is raised here. After failure there is
        nothing of that name. `is_kernel`: the volume is for a `Kernel`."""

    @abstractmethod
    def copy_disk(self, source: Disk, target: Disk, progress: Progress | None = None) -> None:
        """After success there is a second disk with all the content of the first, of the same size, with no base image.
        The source must not be written to meanwhile: it is in no running machine, or under an overlay. A disk of the
        target's name is replaced; after failure there is none."""

    @abstractmethod
    def read_disk(self, disk: Disk, target: Writable, progress: Progress | None = None) -> None:
        """Write the bytes of the disk's own qcow2 file, in order, to `target.write`."""

    # --- machines

    @abstractmethod
    def set_media(self, machine_id: str, slot: str, disk: Disk | None) -> None:
        """After success the machine's optical drive holds this medium, or none: at once when the machine runs, also
        when the guest has locked the tray, and at every later start."""

    @abstractmethod
    def define(self, machine: Machine) -> None:
        """After success the node has the machine and keeps it across restarts; it is off, or continues to run with the
        old definition until its next start. The filters of its NICs may apply at once. After failure the earlier
        definition, if any, is unchanged."""

    @abstractmethod
    def ensure_sandbox_network(self, network: SandboxNetwork) -> None:
        """After success the network `SANDBOX_NETWORK_NAME` is active and refuses what it says, also to running guests
        and on open connections. It has no DHCP and no DNS. One with other addresses is replaced: the caller makes sure
        that no guest runs in it."""

    @abstractmethod
    def update_nics(self, machine_id: str, nics: tuple[Nic, ...]) -> None:
        """After success the machine's NICs with these MACs are as described, in the running machine and at each later
        start: addresses, prefixes, firewall rules, mail, rates and link. NICs that the machine does not have are not
        added, and NICs that are not listed stay as they are. Open connections that are no longer allowed are cut."""

    @abstractmethod
    def power(self, machine_id: str) -> Power:
        """Return the machine's power state: a cheap call for polling one machine."""

    @abstractmethod
    def start(self, machine_id: str) -> None:
        """After success the machine is powered on. After failure it is off. A machine with a saved state continues from
        it, and the state is removed; after failure the state is still there."""

    @abstractmethod
    def shutdown(self, machine_id: str) -> None:
        """Ask the guest to turn itself off (agent or power button). Returns at once: a guest may take its time or
        ignore it."""

    @abstractmethod
    def power_off(self, machine_id: str) -> None:
        """After success the machine is off, without a shutdown of the guest."""

    @abstractmethod
    def restart(self, machine_id: str) -> None:
        """Ask a running guest to restart itself, like `shutdown`; the machine never counts as off meanwhile. Raises
        `Refused` when it is off."""

    @abstractmethod
    def reset(self, machine_id: str) -> None:
        """After success the running machine has begun to boot again, as after a press of the reset button."""

    @abstractmethod
    def suspend(self, machine_id: str) -> None:
        """After success the machine's processors are stopped; memory and disks are kept."""

    @abstractmethod
    def resume(self, machine_id: str) -> None:
        """After success a suspended machine continues where it stopped."""

    @abstractmethod
    def save(self, machine_id: str) -> None:
        """After success the machine is off and the node stores its memory: the next `start` continues from there, also
        when the node was restarted meanwhile. The guest's clock then shows the time of the save, until the caller sets
        it. A suspended machine continues running after that start. Does nothing when a state is saved already; raises
        `Refused` when the machine is off without one. After failure the machine runs as before.

        The saved state has the machine's definition in it. `define`, `delete`, `revert_snapshot`, `discard_overlay`
        and `delete_saved_state` remove it; what `update_nics` changes applies at the next start. What it cannot
        follow is `Refused` while there is one: `set_media`, `attach_disk`, `detach_disk`, `commit_overlay`,
        `migrate`. A snapshot then covers the disks only, as of a machine that lost its power."""

    @abstractmethod
    def has_saved_state(self, machine_id: str) -> bool:
        """Return whether the next start of the machine continues from a saved state."""

    @abstractmethod
    def delete_saved_state(self, machine_id: str) -> None:
        """After success the next start of the machine boots it."""

    @abstractmethod
    def open_channel(self, machine_id: str) -> socket.socket:
        """Return a connected socket whose other end is the port `CHANNEL_NAME` of the running machine. It behaves like
        any stream socket: it can be polled, used by asyncio, and passed to another process. At most one is open for a
        machine: a new one ends the earlier. It reads as ended when the machine stops, is saved or restarted by the
        node, when the connection to the node is lost, and when this process ends, which carries the bytes. The caller
        must keep reading: the channel may end when more than `MAX_UNREAD_CHANNEL_BYTES` wait. Closing or shutting down
        the socket ends the channel; bytes that the guest has not read by then may be lost. If the guest was sending
        while an earlier channel was closed, the new one may get nothing (seen with QEMU 7.2): a caller that waits in
        vain opens it again. Raises `Refused` when the machine is off or was started without the channel."""

    @abstractmethod
    def delete(self, machine_id: str) -> None:
        """After success the node does not have the machine (it is powered off first). Its disks stay: the caller
        deletes them by name."""

    @abstractmethod
    def migrate(self, machine: Machine, target: Self, progress: Progress | None = None) -> None:
        """Move a machine with its memory and disks to another node of the same driver while its guest runs; a machine
        that is off is moved without its guest running. `machine` is the definition for the target: the same id, and its
        disks, media and NICs in the same order as here. Its disks have been created there, its media copied.

        After success the target has it, on or off as it was, and this node does not; deleting its disks and media here
        is left to the caller. After `Refused`, `NoCapacity` or `NotOnNode`, or when `progress` raised, it is here as
        before and not on the target. After `Unreachable` either may be true, or both nodes have it: then the one where
        it runs is right, and the other may delete it.
        """

    @abstractmethod
    def copy_media(self, medium: Disk, target: Self, target_disk: Disk) -> None:
        """After success the target has a volume `target_disk` with the same bytes. After failure it has none."""

    @abstractmethod
    def clean_up_target(self, machine_id: str, disks: Iterable[tuple[str, str]], name: str = "") -> None:
        """Clean up a move that did not complete. After success these disks (pool and name), created for a machine that
        was to be moved here, are deleted, and so is any state of the TPM and firmware of the machine of that name. If
        the node has the machine, they belong to it and nothing is changed."""

    @abstractmethod
    def describe_machine(self, machine_id: str) -> MachineDescription:
        """Return the definition of a machine, which may be unmanaged. Changes nothing."""

    @abstractmethod
    def import_machine(self, machine: Machine) -> None:
        """Import an unmanaged machine: `define`, for one that exists under its id and is off (`Refused` when it is on).
        Its disks stay as they are. The node no longer starts it by itself. Until it is defined again the node stores
        its earlier definition. After failure it is unchanged."""

    @abstractmethod
    def revert_import(self, machine_id: str) -> None:
        """After success a machine that was adopted, and not defined since, has its earlier definition again. Does
        nothing for any other machine."""

    @abstractmethod
    def console(self, machine_id: str, password: str) -> Endpoint:
        """After success the running machine's VNC server accepts `password` (VNC uses 8 characters) and no other, until
        it is set again or the machine is powered on again; open connections stay. Returns its address. Raises `Refused`
        when the machine is off or has no VNC, `NoTicket` when the node's cluster must issue a ticket for it and did
        not."""

    @abstractmethod
    def screenshot(self, machine_id: str) -> bytes:
        """Return what the running machine shows on its screen, as a PNG image. Raises `Refused` when the machine is off
        or has no screen. Changes nothing."""

    # --- attached disks

    @abstractmethod
    def attach_disk(self, machine_id: str, disk: Disk) -> None:
        """After success the machine has the disk, at once if it runs. A guest finds it by its serial number: the disk's
        name up to the first dot, cut to 20 characters."""

    @abstractmethod
    def detach_disk(self, machine_id: str, pool: str, name: str) -> None:
        """After success the machine does not have the disk, whose content stays; a running guest has released it.
        Raises `Refused` when the guest does not release it."""

    # --- overlays

    @abstractmethod
    def create_overlays(self, machine_id: str, disks: Iterable[Disk]) -> None:
        """After success the running machine writes to overlays, and these disks no longer change; the guest's file
        systems were frozen at that moment if its agent answers. From then on the machine uses the disks through their
        overlays (`make_overlay_name`), also after a new start or definition, until they are merged or dropped. Disks
        that have an overlay keep it. After failure none was created by this call. Raises `Refused` when the machine is
        off."""

    @abstractmethod
    def thaw_guest(self, machine_id: str) -> None:
        """After success the file systems of a running guest whose agent answers are no longer frozen. `create_overlays`
        does this itself: this is for callers that do not know whether that call was interrupted."""

    @abstractmethod
    def commit_overlay(self, machine_id: str, pool: str, name: str, progress: Progress | None = None) -> None:
        """After success everything that was written to the overlay is in the disk, the machine uses the disk, and the
        overlay is gone; a running guest is not disturbed. Without an overlay nothing is done. After failure or an
        interruption the machine still has all its data, and the merge can be repeated; but part of the data may be in
        the disk already."""

    @abstractmethod
    def discard_overlay(self, machine_id: str, pool: str, name: str) -> None:
        """After success the disk has the content from when its overlay was created, and the overlay is gone. The
        machine must be off: `Refused` when it is on. Without an overlay nothing is done."""

    # --- snapshots

    @abstractmethod
    def create_snapshot(self, machine_id: str, name: str, memory: bool = False) -> None:
        """After success the current content of the machine's disks, all at one moment, is stored under that name (which
        belongs to the machine), and its memory if it runs and `memory` is true. The guest continues."""

    @abstractmethod
    def revert_snapshot(self, machine_id: str, name: str, memory: bool = False) -> None:
        """After success the disks have the stored content. The machine is off; with `memory`, if it ran when the
        snapshot was taken, it continues from then. Its definition may be that of then. Its checkpoints are deleted.
        Raises `NotOnNode` when there is no such snapshot."""

    @abstractmethod
    def delete_snapshot(self, machine_id: str, name: str) -> None:
        """After success the machine has no snapshot of that name. Its disks stay as they are."""

    # --- backups

    @abstractmethod
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
        """After success `open_backup` reads these disks as they were at one moment, until `end_backup`. A running guest
        continues; its file systems were frozen at that moment if its agent answers. The machine then has a checkpoint
        of that name, besides earlier ones, which records for each disk what is written from that moment. With
        `previous`, an earlier checkpoint, readers list what has changed since, where the node knows it, but not of the
        disks whose names are in `fully_read`.

        The node makes a copy of what is read, for which it needs room, before this returns; from a running machine at
        most so fast (0 is unlimited). The disks of a machine that is off, and volumes in no machine (`machine_id`
        None), are read completely, and there is no checkpoint; they must not be written to until this returns. A job of
        the same machine that was not ended is replaced, and so is a checkpoint of the same name. After failure, or when
        `progress` raised, there is no job, but there may be the checkpoint."""

    @abstractmethod
    def open_backup(self, machine_id: str | None, disk: Disk) -> BackupReader:
        """Return a reader of a disk of the job. Several may be open."""

    @abstractmethod
    def end_backup(self, machine_id: str | None, disks: Iterable[tuple[str, str]]) -> None:
        """After success there is no job of the machine, and what the node stored for the job of these disks (pool and
        name) is deleted. Checkpoints stay."""

    @abstractmethod
    def delete_checkpoints(self, machine_id: str, retained: Iterable[str] = ()) -> None:
        """After success the machine has no checkpoints but those of `retained` that it had; one that is off may
        keep all as long as `retained` is not empty. Jobs are not affected. The changes since a retained checkpoint stay
        known."""

    @abstractmethod
    def write_disk(self, disk: Disk, content: DiskContent, progress: Progress | None = None) -> None:
        """After success the disk exists with that size and content and no base image; an existing disk of that name is
        replaced, so the caller must make sure that no machine runs on it. An exception of `content` or `progress` ends
        the transfer and is raised here. After failure there is no disk of that name."""

    # --- state beside the disks

    @abstractmethod
    def read_firmware_state(self, machine_id: str) -> dict[str, bytes]:
        """Return what the node stores of the machine beside its disks: `nvram`, the variables of its firmware, and
        `tpm`, the state of its TPM. What its definition does not have, or it did not need yet, is left out. The machine
        may be on."""

    @abstractmethod
    def write_firmware_state(self, machine_id: str, state: dict[str, bytes]) -> None:
        """After success the machine has this state, as `read_firmware_state` returned it for any machine with the same
        settings. What is not in `state` stays. Raises `Refused` when the machine is on. After another failure a part
        may be missing: the call is to be repeated."""

    # --- inside the guest

    @abstractmethod
    def agent_ping(self, machine_id: str) -> None:
        """Return when the guest agent answers; raise `AgentUnavailable` otherwise."""

    @abstractmethod
    def ping_agents(self, machine_ids: Iterable[str], seconds: float = 20.0) -> dict[str, bool]:
        """Ping the guest agents of many machines, some at a time; return for each whether it answered. Starts no ping
        after `seconds`. A machine that was not pinged by then, is off, is not on the node, or whose agent is busy is
        left out."""

    @abstractmethod
    def agent_filesystems(self, machine_id: str) -> list[FileSystem]:
        """Return the file systems that the guest has mounted from disks, with sizes as it reports them."""

    @abstractmethod
    def agent_addresses(self, machine_id: str) -> dict[str, list[str]]:
        """Return the addresses that the guest reports, by MAC, without the loopback."""

    @abstractmethod
    def agent_run(
        self, machine_id: str, command: Iterable[str], stdin: str = "", deadline: float = 30
    ) -> CommandResult:
        """Run a program inside the guest and wait for it. `deadline` is in seconds; past it `AgentUnavailable` is
        raised and the program may continue."""

    @abstractmethod
    def agent_set_password(self, machine_id: str, user: str, password: str) -> None:
        """After success the user can sign in to the guest with that password."""
