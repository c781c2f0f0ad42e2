"""The manifest of a point: everything that a restore needs beside the chunks."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from worker.backups.errors import Damaged

FORMAT_VERSION = 1

NAME_BYTES = 32
ZERO_CHUNK = bytes(NAME_BYTES)
"""Stands in a table for a chunk of zeros, which is not stored."""

TABLE_CHUNKS = 4096
"""Chunks whose names one table lists. Tables are chunks themselves, so those that did not change are not stored
again."""

KIBIBYTE, GIBIBYTE = 1024, 1024**3
SMALL_CHUNK_BYTES, CHUNK_BYTES, MAX_SMALL_DISK_BYTES = 256 * KIBIBYTE, 1024 * KIBIBYTE, 32 * GIBIBYTE
"""Sizes of the chunks of small and of other disks, and the size up to which a disk is small. Small chunks make small
increments; large ones make small tables."""


def choose_chunk_size(disk_size: int) -> int:
    return SMALL_CHUNK_BYTES if disk_size <= MAX_SMALL_DISK_BYTES else CHUNK_BYTES


@dataclass(frozen=True)
class DiskEntry:
    """A disk of a point."""

    name: str
    """The disk's name for the caller, by which the next backup finds it."""
    size: int
    chunk_size: int
    tables: tuple[str, ...]
    """The names of its tables, in hexadecimal; `ZERO_CHUNK` for a table of zero chunks."""
    read_mode: str
    """`full` or `incremental`."""
    full_read_reason: str | None = None
    """Why everything was read: `first_backup`, `no_checkpoint`, `broken_bitmap`, …; None for an incremental read."""


@dataclass
class PointStatistics:
    """What a backup read, stored and found in the repository."""

    bytes_read: int = 0
    bytes_uploaded: int = 0
    """Bytes of packs and their index objects."""
    chunks_stored: int = 0
    chunks_reused: int = 0
    """Chunks of this point, zeros excepted, that were in the repository already."""
    bytes_used: int = 0
    """Bytes of the disks that are not zero, in whole chunks."""


@dataclass(frozen=True)
class Manifest:
    point: str
    created_at: str
    """When the disks had this content, in ISO 8601."""
    disks: tuple[DiskEntry, ...]
    consistency: str
    """`filesystem` (frozen by the guest agent), `crash` or `stopped`."""
    checkpoint: str | None = None
    """The checkpoint on the node from which the next increment can start."""
    parent: str | None = None
    """The point whose content was taken over where the disks had not changed; for information only."""
    machine: dict[str, Any] = field(default_factory=dict)
    """The caller's description of the machine."""
    firmware: dict[str, str] = field(default_factory=dict)
    """The state of the machine's firmware and TPM, as `pack_state` returns it."""
    statistics: PointStatistics = field(default_factory=PointStatistics)

    def find_disk(self, name: str) -> DiskEntry | None:
        return next((disk for disk in self.disks if disk.name == name), None)

    def to_bytes(self) -> bytes:
        return json.dumps({"format": FORMAT_VERSION} | asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Manifest":
        fields = json.loads(data)
        if (version := fields.pop("format")) != FORMAT_VERSION:
            raise Damaged(f"The manifest has format {version}; this version reads {FORMAT_VERSION}.")
        fields["disks"] = tuple(DiskEntry(**disk | {"tables": tuple(disk["tables"])}) for disk in fields["disks"])
        return cls(**fields | {"statistics": PointStatistics(**fields["statistics"])})
