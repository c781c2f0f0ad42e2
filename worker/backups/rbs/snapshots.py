"""Snapshots on a server, and the files in them that describe a point."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from worker.backups.errors import Damaged
from worker.backups.rbs.blobs import BlobKey

BACKUP_TYPE = "vm"
CHUNK_BYTES = 4 * 1024**2
"""Size of the chunks of a fixed index; the server knows no other."""

MANIFEST_BLOB, DESCRIPTION_BLOB = "index.json.blob", "panel.json.blob"
"""What each snapshot has: the server's manifest, and the panel's own one, encrypted."""

INDEX_MAGIC = bytes((47, 127, 65, 237, 145, 253, 15, 205))
INDEX_HEADER_BYTES, DIGEST_BYTES = 4096, 32
CHECKSUM_OFFSET, SIZE_OFFSET, CHUNK_SIZE_OFFSET = 32, 64, 72
"""Offsets in the header of a fixed index, after the magic number, the id (16 bytes) and the time (8 bytes)."""


@dataclass(frozen=True)
class Snapshot:
    """The identity of a snapshot in a datastore."""

    namespace: str
    """Empty for the root."""
    group: str
    """The server's `backup-id`."""
    time: int
    """The server's `backup-time`, in seconds since the epoch."""

    @property
    def parameters(self) -> dict[str, Any]:
        return build_group_parameters(self.namespace, self.group) | {"backup-time": self.time}


class SnapshotDirectory(Protocol):
    """Which snapshot a point is."""

    def find(self, point: str) -> Snapshot | None:
        """Return the point's snapshot, which may not be stored, or None."""

    def get_group(self, point: str) -> tuple[str, str]:
        """Return the namespace and group of a new point."""

    def assign(self, point: str, snapshot: Snapshot) -> None:
        """Record the snapshot that is going to be made for a point."""

    def map_points(self) -> Mapping[str, Snapshot]:
        """Return the snapshots of all points."""


@dataclass(frozen=True)
class SnapshotState:
    """What the server reports of a snapshot."""

    is_protected: bool
    verification: str | None
    """`ok` or `failed`; None: not verified."""


def build_group_parameters(namespace: str, group: str) -> dict[str, Any]:
    parameters = {"backup-type": BACKUP_TYPE, "backup-id": group}
    return parameters | {"ns": namespace} if namespace else parameters


def name_archive(number: int) -> str:
    """Return the file name of a disk's index, by the disk's place in the point."""
    return f"disk-{number}.img.fidx"


def build_manifest(snapshot: Snapshot, files: Iterable[Mapping[str, Any]], key: BlobKey) -> bytes:
    """Return the server's manifest, with the signature of the key."""
    content = {
        "backup-type": BACKUP_TYPE,
        "backup-id": snapshot.group,
        "backup-time": snapshot.time,
        "files": list(files),
    }
    signature = key.sign(encode_canonical(content))
    return encode_canonical(content | {"signature": signature, "unprotected": {"key-fingerprint": key.fingerprint}})


def encode_canonical(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def read_files(manifest: bytes, key: BlobKey) -> dict[str, dict[str, Any]]:
    """Return the files of a manifest by their names. Raises `Damaged` unless the key has signed it."""
    try:
        content = json.loads(manifest)
        signature = content.pop("signature", None)
        content.pop("unprotected", None)
        files = {file["filename"]: file for file in content["files"]}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged("The manifest of the snapshot cannot be read.") from error
    if signature != key.sign(encode_canonical(content)):
        raise Damaged("The manifest of the snapshot has another key's signature.")
    return files


def list_digests(index: bytes) -> list[bytes]:
    """Return the digests of a fixed index. Raises `Damaged`."""
    header, digests = index[:INDEX_HEADER_BYTES], index[INDEX_HEADER_BYTES:]
    if len(header) < INDEX_HEADER_BYTES or not header.startswith(INDEX_MAGIC):
        raise Damaged("An index of the backup server has an unknown format.")
    size, chunk_size = (int.from_bytes(header[at : at + 8], "little") for at in (SIZE_OFFSET, CHUNK_SIZE_OFFSET))
    if hashlib.sha256(digests).digest() != header[CHECKSUM_OFFSET:SIZE_OFFSET]:
        raise Damaged("An index of the backup server has a wrong checksum.")
    if chunk_size != CHUNK_BYTES or len(digests) != -(-size // CHUNK_BYTES) * DIGEST_BYTES:
        raise Damaged("An index of the backup server has a wrong size.")
    return [digests[start : start + DIGEST_BYTES] for start in range(0, len(digests), DIGEST_BYTES)]
