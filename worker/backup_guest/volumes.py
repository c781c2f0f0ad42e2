"""Finding and mounting the file systems of the disks, read-only.

The disks are copies that nobody else uses. So a file system that was in use can be repaired from its journal first.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .names import encode_name

VOLUMES_FOLDER, VOLUMES_FILE = Path("/run/volumes"), Path("/run/volumes.json")
SYSTEM_DISK = "vda"
COMMAND_TIMEOUT_SECONDS = 60
SECTOR_BYTES = 512

COMMON_OPTIONS = "ro,nosuid,nodev,noexec"
MOUNT_ATTEMPTS = {
    **{kind: [("ext4", ""), ("ext4", "noload")] for kind in ("ext2", "ext3", "ext4")},
    "xfs": [("xfs", "nouuid"), ("xfs", "nouuid,norecovery")],
    "btrfs": [("btrfs", "")],
    "vfat": [("vfat", "utf8")],
    "exfat": [("exfat", "")],
    "iso9660": [("iso9660", "")],
    "ntfs": [("ntfs-3g", "norecover"), ("ntfs-3g", "")],
}
"""For each kind of file system: driver and options, tried in turn."""

IGNORED_KINDS = ("swap", "LVM2_member")
ENCRYPTED_KINDS = ("crypto_LUKS", "BitLocker")


@dataclass
class Volume:
    """A file system, or what cannot be read of a disk."""

    name: str
    kind: str
    label: str
    size: int
    error: str | None = None
    """`encrypted`, `unsupported` or `damaged`."""


def run(*command: str) -> subprocess.CompletedProcess[bytes] | None:
    """Run a program. Return None when it is missing or takes too long."""
    try:
        return subprocess.run(command, capture_output=True, timeout=COMMAND_TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None


def mount_all() -> None:
    """Mount everything, then write the list of volumes, whose file says that this is done."""
    VOLUMES_FOLDER.mkdir(exist_ok=True)
    volumes = [volume for name, device in list_devices() if (volume := mount(name, device))]
    temporary = VOLUMES_FILE.with_suffix(".new")
    temporary.write_text(json.dumps([asdict(volume) for volume in volumes]))
    temporary.rename(VOLUMES_FILE)


def list_devices() -> Iterator[tuple[str, str]]:
    """Yield name and device of each partition, of disks without any, and of logical volumes."""
    disks = [path.name for path in Path("/sys/block").iterdir() if path.name.startswith("vd")]
    for number, disk in enumerate(sorted(set(disks) - {SYSTEM_DISK}, key=lambda name: (len(name), name)), 1):
        partitions = {int(path.read_text()): path.parent.name for path in Path("/sys/block", disk).glob("*/partition")}
        for position, partition in sorted(partitions.items()):
            yield f"disk-{number}-partition-{position}", f"/dev/{partition}"
        if not partitions:
            yield f"disk-{number}", f"/dev/{disk}"
    run("lvm", "vgchange", "--activate", "y", "--sysinit")
    listing = run("lvm", "lvs", "--noheadings", "--separator", "|", "-o", "vg_name,lv_name,lv_kernel_minor")
    for line in listing.stdout.decode(errors="replace").splitlines() if listing else ():
        group, volume, minor = line.strip().split("|")
        if os.path.exists(device := f"/dev/dm-{minor}"):  # the kernel makes it; names would need udev
            yield f"lvm-{group}-{volume}", device


def probe(device: str) -> dict[str, str]:
    result = run("blkid", "--probe", "--output", "export", device)
    text = result.stdout.decode(errors="replace") if result else ""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def mount(name: str, device: str) -> Volume | None:
    """Mount the file system and return it. None: there is nothing to read."""
    facts = probe(device)
    kind = facts.get("TYPE")
    if kind is None or kind in IGNORED_KINDS:
        return None
    label = encode_name(os.fsencode(facts.get("LABEL", "")))
    volume = Volume(encode_name(os.fsencode(name)), kind, label, get_size(device))
    if kind in ENCRYPTED_KINDS:
        volume.error = "encrypted"
    elif kind not in MOUNT_ATTEMPTS:
        volume.error = "unsupported"
    elif not any(try_mount(name, device, *attempt) for attempt in MOUNT_ATTEMPTS[kind]):
        volume.error = "damaged"
    return volume


def get_size(device: str) -> int:
    block = Path(os.path.realpath(device)).name
    return int(Path("/sys/class/block", block, "size").read_text()) * SECTOR_BYTES


def try_mount(name: str, device: str, driver: str, options: str) -> bool:
    target = VOLUMES_FOLDER / name
    target.mkdir(exist_ok=True)
    options = ",".join(filter(None, (COMMON_OPTIONS, options)))
    command = ("ntfs-3g", "-o", options) if driver == "ntfs-3g" else ("mount", "-t", driver, "-o", options)
    result = run(*command, device, str(target))
    if result is not None and result.returncode == 0:
        return True
    target.rmdir()
    return False


def read_volumes() -> dict[str, Any]:
    """Return whether all are mounted, and the volumes."""
    try:
        return {"ready": True, "volumes": json.loads(VOLUMES_FILE.read_text())}
    except FileNotFoundError:
        return {"ready": False, "volumes": []}
