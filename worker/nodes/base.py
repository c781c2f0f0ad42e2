"""What the panel needs of a machine host, in prose. Every driver keeps these promises; one contract test checks all.

A *node* is one hypervisor. A driver talks to it and keeps no state of its own: whatever a method leaves behind lives on
the node and can be found again by `machines()` and `disks()`. The panel gives every thing its name, so a call that was
cut off can be repeated with the same name.

Rules for every method:

* **Names and ids come from the panel.** A machine is found by its `id` (the instance's UUID), a disk by pool and name.
* **Repeating is harmless.** Deleting what is not there, starting what runs, stopping what is off: done, no error.
  Creating what a cut-off attempt left half-made replaces it.
* **What makes no sense is `Refused`**: resetting, suspending or resuming a machine that is off, an unknown program in a
  guest. Defining a machine over a disk that is not there, or anything in a pool that is not there, is `Missing`.
* **After success** the promised thing is true and durable on the node.
* **After `Refused`, `Missing`, `Full`** the node said no, and nothing of the attempt is left.
* **After `Unreachable`** the node did not answer in time: the outcome is unknown, and it may still happen. The caller
  asks again (`machines`, `disks`) before it believes anything.
* **Every call ends.** A driver gives each call a deadline of its own; a silent node costs the caller at most that.
  After repeated silence the node's circuit opens: calls then fail at once with `Unreachable` until a probe gets
  through. A driver may work, and call `progress`, in another thread than the caller's.
* **Errors speak twice**: `str(error)` is a sentence for a customer, without paths, addresses or names of hosts;
  `error.detail` is for operators.
* Drivers are safe to call from several threads.

ISO media are entries of `Machine.media` changed by `set_media`; rescue is a `define` of the same machine with another
first disk. What comes next has its place: snapshots and live-snapshot sessions add methods over `Disk`s with
the same naming rule; a backup reads a disk through `export`; migration is `define` on the target plus one transfer
method; networks are named on `Nic.network` and made by methods of their own.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

GiB = 1024**3


def overlay_name(name: str) -> str:
    """What the overlay of a disk of that name is called."""
    return f"{name}.forge"


Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in total) while a long transfer goes on."""


class NodeError(Exception):
    """Something on the node did not work. The text is for people; `detail` is for operators."""

    def __init__(self, message: str, detail: str = ""):
        super().__init__(message)
        self.detail = detail or message


class Unreachable(NodeError):
    """The node did not answer in time. Whether the call took effect is unknown."""


class Refused(NodeError):
    """The node answered no. Nothing was changed."""


class Missing(NodeError):
    """The machine, disk or image that was named is not on the node."""


class Full(Refused):
    """The node has not enough room (storage or memory). Nothing was changed."""


class NoTicket(Refused):
    """The node's cluster issued no ticket for the screen. Nothing was changed."""


class AgentSilent(NodeError):
    """The machine runs, but the guest agent inside it does not answer. Nothing was changed."""


class Power(enum.StrEnum):
    """What the node sees of a machine. `paused` counts as powered on: its memory is kept."""

    on = "on"
    off = "off"
    paused = "paused"


@dataclass(frozen=True)
class NodeSpec:
    """How to reach a node: the facts of a hypervisor row that a driver needs."""

    id: str
    name: str
    driver: str
    uri: str


@dataclass(frozen=True)
class Pool:
    """A place for disks on a node."""

    name: str
    path: str
    capacity: int = 0
    free: int = 0
    """Bytes, as the node reports them."""


@dataclass(frozen=True)
class Capabilities:
    """What a node is and can do, as it said itself. `accelerated` is only true after a guest really ran under KVM."""

    version: str
    cpu_cores: int
    memory: int
    """Bytes."""
    accelerated: bool
    acceleration_note: str
    """Why guests run with or without hardware acceleration, in a sentence for operators."""
    bandwidth_limits: bool
    """Whether the node can enforce the speed limits of a `Nic`."""
    address_filters: bool
    """Whether the node can stop guests from using addresses that are not theirs."""
    pools: tuple[Pool, ...] = ()
    screen_tickets: bool = False
    """Whether the node belongs to a cluster of its own, which issues a ticket for each opening of a screen, or none."""
    tpm: bool = False
    """Whether the node can give a machine a TPM."""
    secure_boot: bool = False
    """Whether the node has a firmware with secure boot for machines."""


@dataclass(frozen=True)
class Image:
    """A disk image as the panel keeps it. `name` is unique for these very bytes (it carries the checksum)."""

    name: str
    path: Path
    """The file on the panel's side, qcow2."""
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
    """Traffic that may begin, with everything that answers it."""

    direction: str
    """`in`, to the guest, or `out`."""
    family: int
    """4 or 6."""
    protocol: str = "all"
    """`tcp`, `udp`, `icmp` (of the family) or `all`."""
    ports: tuple[int, int] | None = None
    """The first and the last one at the end that is reached, for `tcp` and `udp`; None is all of them."""
    network: str | None = None
    """The other end; None is anybody."""


@dataclass(frozen=True)
class Nic:
    """A network card. The guest may send only from `mac`, `addresses` and `prefixes`; rates are in Mbit/s, 0 is
    unlimited."""

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
    """None lets everything pass. Else nothing but what is listed may begin, in either direction; neighbour discovery
    always passes, and errors about what was allowed. A packet from the node itself, or that the node routes, may reach
    the guest although nothing allows it, but the guest's answer does not get out, so nothing comes of it."""
    mail: bool = True
    """Whether the guest may reach port 25 of others."""
    connected: bool = True
    """Whether the cable is in: without it nothing passes."""


@dataclass(frozen=True)
class Seed:
    """First-boot configuration, cloud-init's NoCloud: the three files, as text."""

    meta_data: str
    user_data: str
    network_config: str


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
    """Optical drives: slot (`seed`, `primary`, `secondary`) to what lies in it."""
    boot: tuple[str, ...] = ("disk",)
    """Order of `disk`, `cdrom`, `network`."""
    vnc: bool = True
    vnc_password: str = ""
    topology: tuple[int, int, int] | None = None
    """Sockets, cores of each, threads of each core: together `cpu_cores`. None: each core is a processor."""
    tpm: bool = False
    """A TPM 2.0. A node that has none to give refuses the definition. What it holds is kept until the machine is
    deleted, also while a definition has none."""
    secure_boot: bool = False
    """UEFI that starts only what is signed, instead of a BIOS. A node without such a firmware refuses the definition.
    Its variables are kept as the TPM is; a machine that has them cannot take snapshots."""


@dataclass(frozen=True)
class MachineStatus:
    """One machine as the node sees it, with the counters that grow while it runs."""

    id: str
    name: str
    power: Power
    cpu_seconds: float = 0.0
    memory_used: int = 0
    """Bytes of host memory."""
    received: dict[str, int] = field(default_factory=dict)
    """By mac: bytes the guest received, since it was started."""
    sent: dict[str, int] = field(default_factory=dict)
    """By mac: bytes the guest sent, since it was started."""
    disk_read: int = 0
    disk_written: int = 0
    disk_reads: int = 0
    disk_writes: int = 0
    """Operations of all its disks, since it was started."""
    guest_memory: int | None = None
    """Bytes that the guest itself says it uses; None when it does not tell."""


@dataclass(frozen=True)
class DiskDescription:
    """A disk of a machine that the panel did not make."""

    device: str
    """What the machine calls it: `vda`."""
    name: str
    """In its pool; outside of pools where it lies."""
    pool: str | None = None
    """None: it lies in no pool of the node."""
    size: int = 0
    """Bytes the guest sees."""
    fault: str | None = None
    """Why a machine of the panel cannot have it as it is, completing "the disk …"; None when it can."""


@dataclass(frozen=True)
class MachineDescription:
    """A machine as it is defined on the node, whoever made it."""

    id: str
    name: str
    power: Power
    cpu_cores: int
    memory_mb: int
    disks: tuple[DiskDescription, ...] = ()
    """Without optical drives; the one that it boots from first."""
    nics: tuple[Nic, ...] = ()
    """With mac and network alone."""
    tpm: bool = False
    secure_boot: bool = False
    faults: tuple[str, ...] = ()
    """What it has that `adopt` would not keep, in sentences for operators."""


@dataclass(frozen=True)
class Endpoint:
    """Where the screen of a running machine can be had, from the panel's side."""

    host: str
    port: int
    password: str
    via: str | None = None
    """`ssh://user@host:22`: the way to `host`, which then is the node's loopback or an address the node reaches. The
    panel's own key and known hosts count, or `?keyfile=` names a key. None: `host` is reached directly."""


@dataclass(frozen=True)
class CommandResult:
    """A command that ran inside a guest."""

    exit_code: int
    output: str


@dataclass(frozen=True)
class FileSystem:
    """What a guest has mounted."""

    mountpoint: str
    kind: str
    """`ext4`, `vfat`, `NTFS`."""
    size: int
    used: int
    """Bytes."""


MachineEventCallback = Callable[[str, Power | None], None]
"""Called with a machine's id and what it is now; None when the machine was removed."""


class NodeDriver(ABC):
    """One hypervisor, reached through one driver."""

    def __init__(self, spec: NodeSpec, data_dir: Path):
        self.spec = spec
        self.data_dir = data_dir

    # --- the node itself

    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What the node is and can do. This may try things out (a probe guest), so it may take some seconds; it leaves
        nothing behind. Called when a node is added or checked, not while a customer waits."""

    @abstractmethod
    def ping(self) -> None:
        """Returns when the node answers; raises `Unreachable` otherwise. Cheap, and what closes an open circuit."""

    @abstractmethod
    def machines(self) -> list[MachineStatus]:
        """Every machine on the node, also those that the panel did not make, in one bulk call however many."""

    @abstractmethod
    def watch(self, event: MachineEventCallback, stop: Callable[[], bool]) -> None:
        """Calls `event` for each change of power and each removal, within a second or two of it, until `stop()` is
        true. Raises `Unreachable` when the node is lost; the caller then watches again. Events may repeat and may be
        lost: the caller also polls `machines`."""

    @abstractmethod
    def close(self) -> None:
        """Gives up connections. The node can be used again afterwards: it connects anew."""

    # --- pools, images, disks

    @abstractmethod
    def prepare_pool(self, name: str, path: str) -> Pool:
        """After success a pool of that name keeps its disks under that path, across restarts of the node. Several may
        prepare it at once."""

    @abstractmethod
    def has_image(self, pool: str, image: Image) -> bool:
        """Whether the complete image lies in the pool. A transfer that was cut off does not count."""

    @abstractmethod
    def put_image(self, pool: str, image: Image, progress: Progress | None = None) -> None:
        """After success the complete image lies in the pool and disks can be made from it; when it was there, nothing
        is moved. After failure the pool holds no part of it that `has_image` would count."""

    @abstractmethod
    def delete_image(self, pool: str, name: str) -> None:
        """After success the pool does not hold the image. Raises `Refused` while a disk is based on it."""

    @abstractmethod
    def create_disk(self, disk: Disk, image: Image | None = None, progress: Progress | None = None) -> None:
        """After success the disk exists with that size: a copy-on-write child of the image, or blank. A disk of that
        name that was there is replaced, so the caller makes sure that no machine runs on it. After failure there is no
        disk of that name."""

    @abstractmethod
    def grow_disk(self, disk: Disk, machine_id: str | None = None) -> None:
        """After success the disk is at least `disk.size` bytes; the running machine that uses it sees the new size at
        once. A disk never shrinks: asking for less changes nothing."""

    @abstractmethod
    def delete_disk(self, pool: str, name: str) -> None:
        """After success no disk or seed of that name is in the pool."""

    @abstractmethod
    def disks(self, pool: str) -> list[Disk]:
        """Every disk, image and seed in the pool, with the size that a guest sees."""

    @abstractmethod
    def create_seed(self, pool: str, name: str, seed: Seed) -> Disk:
        """After success a small read-only medium with the NoCloud files lies in the pool; one of that name is
        replaced."""

    @abstractmethod
    def upload_media(self, pool: str, name: str, source, size: int, progress: Progress | None = None) -> Disk:
        """After success `size` bytes of `source` lie in the pool under that name, as they are; what was there is
        replaced. `source.read(n)` gives up to n bytes, none at the end. What it raises ends the transfer and is raised
        here. After failure there is nothing of that name."""

    @abstractmethod
    def copy_disk(self, source: Disk, target: Disk, progress: Progress | None = None) -> None:
        """After success there is a second disk with all that is on the first, of the same size, based on nothing else.
        Nobody may write to the first meanwhile: it is in no running machine, or under an overlay. One of the target's
        name is replaced; after failure there is none."""

    @abstractmethod
    def read_disk(self, disk: Disk, target, progress: Progress | None = None) -> None:
        """Gives the bytes of the disk's own qcow2 file to `target.write`, in their order."""

    # --- machines

    @abstractmethod
    def set_media(self, machine_id: str, slot: str, disk: Disk | None) -> None:
        """After success that, or nothing, lies in the machine's optical drive: at once when it runs, also when its
        guest has locked the tray, and at every later start."""

    @abstractmethod
    def define(self, machine: Machine) -> None:
        """After success the node knows the machine and keeps it across restarts; it is off, or goes on running with the
        old definition until its next start. What its cards let pass may count at once. After failure the earlier
        definition, if any, is unchanged."""

    @abstractmethod
    def update_nics(self, machine_id: str, nics: tuple[Nic, ...]) -> None:
        """After success the machine's cards of these MACs are as described, in what runs and at each later start:
        addresses, prefixes, what is allowed, mail, rates and cable. Cards that it does not have stay away, and those
        that are not named stay as they are. What was under way and is not allowed any more is cut."""

    @abstractmethod
    def power(self, machine_id: str) -> Power:
        """What the machine is now: a cheap look, for who waits for one machine."""

    @abstractmethod
    def start(self, machine_id: str) -> None:
        """After success the machine is powered on. After failure it is off."""

    @abstractmethod
    def shutdown(self, machine_id: str) -> None:
        """Asks the guest to turn itself off (agent or power button). Returns at once: a guest may take its time or
        ignore it."""

    @abstractmethod
    def power_off(self, machine_id: str) -> None:
        """After success the machine is off, as if the plug were pulled."""

    @abstractmethod
    def restart(self, machine_id: str) -> None:
        """Asks a running guest to restart itself, as `shutdown` does; the machine never counts as off meanwhile. Raises
        `Refused` when it is off."""

    @abstractmethod
    def reset(self, machine_id: str) -> None:
        """After success the running machine has begun to boot anew, as if the reset button were pressed."""

    @abstractmethod
    def suspend(self, machine_id: str) -> None:
        """After success the machine's processors stand still; memory and disks are kept."""

    @abstractmethod
    def resume(self, machine_id: str) -> None:
        """After success a suspended machine goes on where it stood."""

    @abstractmethod
    def delete(self, machine_id: str) -> None:
        """After success the node does not know the machine (it is powered off first). Its disks stay: the caller
        deletes them by name."""

    @abstractmethod
    def move(self, machine: Machine, target: NodeDriver, progress: Progress | None = None) -> None:
        """Moves a machine with its memory and disks to another node of the same driver, while its guest runs; one that
        is off is moved without its guest running. `machine` is how the target is to have it: the same id, and its
        disks, media and cards in the same order as here. Its disks have been created there, its media copied.

        After success the target has it, on or off as it was, and this node does not; its disks and media here are left
        to the caller. After `Refused`, `Full` or `Missing`, or when `progress` raised, it is here as it was and not on
        the target. After `Unreachable` either may be so, or each node has it: then the one where it runs counts, and
        the other may delete it."""

    @abstractmethod
    def copy_media(self, medium: Disk, target: NodeDriver, onto: Disk) -> None:
        """After success the target holds the same bytes as `onto`. After failure it does not hold it."""

    @abstractmethod
    def drop_arrival(self, machine_id: str, disks: Iterable[tuple[str, str]], name: str = "") -> None:
        """After success these disks (pool and name), made for a machine that was to come here, are gone, and what came
        already of the TPM and the firmware of the machine of that name; unless the node has the machine, whose they are
        then: nothing is changed."""

    @abstractmethod
    def describe(self, machine_id: str) -> MachineDescription:
        """What a machine is that may be anybody's. Changes nothing."""

    @abstractmethod
    def adopt(self, machine: Machine) -> None:
        """Defines a machine that somebody else made: `define`, for one that is there under its id and off (`Refused`
        when it is on). Its disks stay as they are. The node no longer starts it by itself. Until it is defined anew the
        node remembers what it was. After failure it is what it was."""

    @abstractmethod
    def give_back(self, machine_id: str) -> None:
        """After success a machine that was adopted, and not defined since, is what it was before. Nothing is to be done
        with one that was not."""

    @abstractmethod
    def console(self, machine_id: str, password: str) -> Endpoint:
        """After success the running machine's VNC screen admits who knows `password` (VNC looks at 8 characters) and
        nobody else, until it is set anew or the machine is powered on anew; who was let in before stays. Says where the
        screen is. Raises `Refused` when the machine is off or has no screen, `NoTicket` when the node's cluster has to
        issue a ticket for it and did not."""

    # --- disks that come and go

    @abstractmethod
    def attach_disk(self, machine_id: str, disk: Disk) -> None:
        """After success the machine has the disk, at once if it runs. A guest finds it by its serial number: the disk's
        name up to the first dot, cut to 20 characters."""

    @abstractmethod
    def detach_disk(self, machine_id: str, pool: str, name: str) -> None:
        """After success the machine does not have the disk, whose content stays; a running guest has let it go. Raises
        `Refused` when the guest does not."""

    # --- overlays

    @abstractmethod
    def create_overlays(self, machine_id: str, disks: Iterable[Disk]) -> None:
        """After success the running machine writes beside these disks, which stay as they are; the guest's file systems
        were at rest at that moment if its agent answers. From then on the machine uses them through their overlays
        (`overlay_name`), also after a new start or definition, until they are merged or dropped. Disks that have one
        keep it. After failure none was laid by this call. Raises `Refused` when the machine is off."""

    @abstractmethod
    def thaw_guest(self, machine_id: str) -> None:
        """After success the file systems of a running guest whose agent answers are at rest no longer. `lay_overlays`
        does this itself: this is for who does not know whether that call was cut off."""

    @abstractmethod
    def merge_overlay(self, machine_id: str, pool: str, name: str, progress: Progress | None = None) -> None:
        """After success everything that was written beside the disk is in it, the machine uses it, and the overlay is
        gone; a running guest does not notice. Without an overlay nothing is to be done. After failure, or when it was
        cut off, the machine has all that it wrote, and merging can be asked for again; but part of it may be in the
        disk already."""

    @abstractmethod
    def drop_overlay(self, machine_id: str, pool: str, name: str) -> None:
        """After success the disk is what it was when its overlay was laid, and the overlay is gone. The machine must be
        off: `Refused` when it is on. Without an overlay nothing is to be done."""

    # --- snapshots

    @abstractmethod
    def create_snapshot(self, machine_id: str, name: str, memory: bool = False) -> None:
        """After success the machine's disks keep what is on them now, all at one moment, under that name (which belongs
        to the machine), and its memory if it runs and `memory` is wanted. The guest goes on."""

    @abstractmethod
    def revert_snapshot(self, machine_id: str, name: str, memory: bool = False) -> None:
        """After success the disks are what they were. The machine is off; with `memory`, if it ran when the snapshot
        was taken, it goes on where it was. Its definition may be that of then. Raises `Missing` when there is no such
        snapshot."""

    @abstractmethod
    def delete_snapshot(self, machine_id: str, name: str) -> None:
        """After success the machine has no snapshot of that name. Its disks stay as they are."""

    # --- inside the guest

    @abstractmethod
    def agent_ping(self, machine_id: str) -> None:
        """Returns when the guest agent answers; raises `AgentSilent` otherwise."""

    @abstractmethod
    def ping_agents(self, machine_ids: Iterable[str], seconds: float = 20.0) -> dict[str, bool]:
        """Pings the guest agents of many machines, some at a time, and says of each whether it answered. Begins no ping
        after `seconds`. A machine that was not asked by then, is off, is not here, or whose agent works on something
        else is left out."""

    @abstractmethod
    def agent_filesystems(self, machine_id: str) -> list[FileSystem]:
        """The file systems that the guest has mounted from disks, as it counts them itself."""

    @abstractmethod
    def agent_addresses(self, machine_id: str) -> dict[str, list[str]]:
        """Addresses the guest itself reports, by mac, without the loopback."""

    @abstractmethod
    def agent_run(
        self, machine_id: str, command: Iterable[str], stdin: str = "", deadline: float = 30
    ) -> CommandResult:
        """Runs a program inside the guest and waits for it. `deadline` is in seconds; past it `AgentSilent` is raised
        and the program may go on."""

    @abstractmethod
    def agent_set_password(self, machine_id: str, user: str, password: str) -> None:
        """After success that password signs in on the guest."""
