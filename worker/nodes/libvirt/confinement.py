"""What isolates QEMU of the local hypervisor from the rest of this machine.

Three things, each where the machine allows it: an unprivileged user, a mount namespace for each machine (libvirt gives
QEMU a /dev of its own) and a security driver (AppArmor or SELinux). The daemon is started with the strictest level
first; a level is used when a probe machine with a disk starts at it, else the next one is tried.

The panel's data directory is closed to everybody but its owner, and so may be the directories above it. Still QEMU has
to reach its disks below it. Therefore the daemon runs in a mount namespace where the first directory that QEMU's user
cannot search is covered by an empty, read-only file system in which only the storage appears, at its usual path. The
panel's own files do not exist for the daemon and its machines.
"""

import contextlib
import grp
import json
import os
import pwd
import shutil
import subprocess
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import libvirt
import structlog
from lxml import etree
from lxml.builder import E

from worker.nodes.libvirt import kvm

log = structlog.get_logger()

QEMU_USERS = ("libvirt-qemu", "qemu")
"""Users that distributions create for QEMU."""

PANEL_QEMU_USER = "panel-qemu"
"""The user that is created where the distribution has none."""

SECURITY_MODULES = {"apparmor": Path("/sys/kernel/security/apparmor"), "selinux": Path("/sys/fs/selinux/enforce")}

PROBE_DISK_BYTES = 65_536

CONFINEMENT_FILE = "confinement.json"


@dataclass(frozen=True)
class QemuUser:
    name: str
    uid: int
    gid: int
    groups: tuple[int, ...] = ()

    def can_search(self, directory: Path) -> bool:
        return self._may(directory.stat(), 0o1)

    def can_open(self, device: Path) -> bool:
        return self._may(device.stat(), 0o6)

    def _may(self, facts: os.stat_result, bits: int) -> bool:
        if self.uid == 0:
            return True
        if facts.st_uid == self.uid:
            bits <<= 6
        elif facts.st_gid in (self.gid, *self.groups):
            bits <<= 3
        return facts.st_mode & bits == bits


ROOT_USER = QemuUser("root", 0, 0)


@dataclass(frozen=True)
class Level:
    """How far QEMU is confined. An empty `security_driver` leaves the choice to libvirt."""

    user: QemuUser
    namespaces: bool
    security_driver: str

    def settings(self) -> str:
        """Return lines of qemu.conf. Disk files belong to QEMU's user while a machine uses them, which is libvirt's
        default."""
        lines = [
            f'user = "{self.user.name}"',
            f'group = "+{self.user.gid}"',
            f"dynamic_ownership = {int(self.user.uid != 0)}",
            "remember_owner = 0",
            f"namespaces = {json.dumps(['mount'] if self.namespaces else [])}",
        ]
        if self.security_driver:
            lines.append(f'security_driver = "{self.security_driver}"')
        return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True)
class Confinement:
    """The confinement that was found to work."""

    user: str
    namespaces: bool
    security_driver: str
    """`apparmor`, `selinux` or `none`."""


def find_user() -> QemuUser | None:
    for name in (*QEMU_USERS, PANEL_QEMU_USER):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return QemuUser(name, entry.pw_uid, entry.pw_gid, tuple(os.getgrouplist(name, entry.pw_gid)))
    return None


def ensure_user() -> QemuUser:
    """Return QEMU's user, created where there is none; root where that fails."""
    if (user := find_user()) is None and (useradd := shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin")):
        groups = ["--groups", "kvm"] if has_group("kvm") else []
        options = ("--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent")
        subprocess.run(
            [useradd, *options, "--shell", "/usr/sbin/nologin", *groups, PANEL_QEMU_USER], capture_output=True
        )
        user = find_user()
    return user or ROOT_USER


def has_group(name: str) -> bool:
    with contextlib.suppress(KeyError):
        return bool(grp.getgrnam(name))
    return False


def find_security_module() -> str:
    """Return the kernel's module that libvirt could use: `apparmor`, `selinux` or nothing."""
    return next((name for name, sign in SECURITY_MODULES.items() if sign.exists()), "")


def list_levels() -> list[Level]:
    """Return the levels, strictest first. Root is the last resort: `panel doctor` warns about it."""
    user = ensure_user()
    drivers = ("", "none") if find_security_module() else ("none",)
    levels = [Level(user, namespaces, driver) for driver in drivers for namespaces in (True, False)]
    return levels if user is ROOT_USER else [*levels, Level(ROOT_USER, False, "none")]


# --- file systems visible to the daemon


def list_directories_to_cover(paths: Iterable[Path], user: QemuUser) -> dict[Path, list[Path]]:
    """Return the directories to cover, each with the storage that stays visible in it."""
    covers: dict[Path, list[Path]] = {}
    for path in paths:
        if (covered := find_unsearchable_ancestor(path, user)) is not None:
            covers.setdefault(covered, []).append(path)
    return covers


def find_unsearchable_ancestor(path: Path, user: QemuUser) -> Path | None:
    """Return the directory nearest to the root that QEMU's user cannot search."""
    return next((parent for parent in reversed(path.parents) if not user.can_search(parent)), None)


def list_storage_paths(directory: Path) -> list[Path]:
    """Return the hypervisor's directory and those of its pools that are elsewhere."""
    paths = [directory]
    for path in list_pool_paths(directory):
        if path.is_dir() and not any(path.is_relative_to(earlier) for earlier in paths):
            paths.append(path)
    return paths


def list_pool_paths(directory: Path) -> list[Path]:
    """Return the directories of the hypervisor's pools, from libvirt's own files."""
    paths = []
    for file in sorted((directory / "etc" / "storage").glob("*.xml")):
        with contextlib.suppress(etree.XMLSyntaxError):
            if path := etree.parse(file).findtext("target/path"):
                paths.append(Path(path))
    return paths


# --- probing a level


def try_level(connection: libvirt.virConnect, directory: Path, works_with_kvm: bool) -> str:
    """Start a machine with a disk, then end it. Returns the error, or an empty text on success."""
    disk = directory / f"probe-{uuid.uuid4()}.img"
    disk.touch(mode=0o600)
    os.truncate(disk, PROBE_DISK_BYTES)
    flags = libvirt.VIR_DOMAIN_START_PAUSED | libvirt.VIR_DOMAIN_START_AUTODESTROY
    try:
        connection.createXML(probe_machine(disk, works_with_kvm), flags).destroy()
    except libvirt.libvirtError as error:
        return str(error)
    finally:
        disk.unlink(missing_ok=True)
    return ""


def probe_machine(disk: Path, works_with_kvm: bool) -> str:
    definition = E.domain(
        E.name(disk.stem),
        E.memory("16", unit="MiB"),
        E.os(E.type("hvm", arch="x86_64", machine="q35")),
        E.devices(
            E.disk(
                E.driver(name="qemu", type="raw"),
                E.source(file=str(disk)),
                E.target(dev="vda", bus="virtio"),
                type="file",
            ),
            E.serial(E.target(port="0"), type="pty"),
        ),
        type="kvm" if works_with_kvm else "qemu",
    )
    return etree.tostring(definition, encoding="unicode")


def read_confinement(connection: libvirt.virConnect, level: Level) -> Confinement:
    """Return the active confinement. libvirt reports its security drivers; every level has one for file ownership
    (`dac`)."""
    models = etree.fromstring(connection.getCapabilities()).xpath("host/secmodel/model/text()")
    driver = next((model for model in models if model in SECURITY_MODULES), "none")
    return Confinement(level.user.name, level.namespaces, driver)


def save_confinement(directory: Path, confinement: Confinement) -> None:
    (directory / CONFINEMENT_FILE).write_text(json.dumps({"boot_id": kvm.read_boot_id(), **asdict(confinement)}))


def find_saved_confinement(directory: Path) -> Confinement | None:
    """Return the confinement found since this machine's last boot, or None."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        values = json.loads((directory / CONFINEMENT_FILE).read_text())
        if values.pop("boot_id") == kvm.read_boot_id():
            return Confinement(**values)
    return None
