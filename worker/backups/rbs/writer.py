"""Writing a snapshot through the server's backup protocol.

The server knows the chunks of the last snapshot of the group after its indexes were downloaded; they are registered
again without an upload. A snapshot that was not finished is removed by the server when the connection ends.
"""

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from panel.core import clock
from worker.backups.batches import split_batches
from worker.backups.errors import Damaged
from worker.backups.manifests import ZERO_CHUNK, DiskEntry, Manifest, PointStatistics
from worker.backups.rbs.blobs import encode_plain
from worker.backups.rbs.errors import ServerFailed
from worker.backups.rbs.http2 import Http2Connection
from worker.backups.rbs.snapshots import (
    CHUNK_BYTES,
    DESCRIPTION_BLOB,
    MANIFEST_BLOB,
    Snapshot,
    build_manifest,
    list_digests,
    name_archive,
)
from worker.backups.stores import iterate_names
from worker.backups.writer import any_byte

if TYPE_CHECKING:
    from worker.backups.rbs.store import RbsStore

MAX_DIGESTS_PER_REQUEST = 512
"""The server takes 64 KiB."""

BEGIN_ATTEMPTS, BEGIN_RETRY_SECONDS = 5, 1.0
"""How often a snapshot is begun: the server refuses it while the group's last connection has not ended."""

REFUSED = 400


@dataclass
class OpenIndex:
    """The index of the disk that is being written."""

    name: str
    writer: int
    """The server's id of it."""
    count: int
    """Chunks of the disk."""
    written: int = 0
    checksum: Any = field(default_factory=hashlib.sha256)


class SnapshotWriter:
    """Stores one point. `add` is safe to call from several threads."""

    def __init__(self, store: "RbsStore", point: str) -> None:
        self.store, self.point = store, point
        self.statistics = PointStatistics()
        self.chunks_stored = 0
        self.connection: Http2Connection | None = None
        self.snapshot: Snapshot | None = None
        self.known: set[bytes] = set()
        """Digests that the server accepts in an index."""
        self.index: OpenIndex | None = None
        self.files: list[dict[str, Any]] = []
        self.lock = threading.Lock()

    def close(self) -> None:
        if self.connection:
            self.connection.close()

    # --- the connection, which is made when the first disk can be read

    def connect(self) -> Http2Connection:
        if self.connection is None:
            self.connection = self.begin()
            self.known = set(self.list_known(self.connection)) - self.store.damaged
        return self.connection

    def begin(self) -> Http2Connection:
        namespace, group = self.store.snapshots.get_group(self.point)
        for attempt in range(1, BEGIN_ATTEMPTS + 1):
            times = self.store.api.fetch_snapshot_states(namespace, group)
            last = self.snapshot.time if self.snapshot else 0
            moment = max(int(clock.now().timestamp()), last + 1, max(times, default=0) + 1)
            self.snapshot = Snapshot(namespace, group, moment)
            self.store.snapshots.assign(self.point, self.snapshot)
            try:
                return self.store.api.upgrade("backup", self.snapshot)
            except ServerFailed as error:
                if error.status != REFUSED or attempt == BEGIN_ATTEMPTS:
                    raise
            time.sleep(BEGIN_RETRY_SECONDS)
        raise AssertionError

    def list_known(self, connection: Http2Connection) -> Iterator[bytes]:
        """Yield the digests of the last snapshot. There is none if its verification failed."""
        try:
            manifest = json.loads(self.store.key.decode(connection.get("previous", archive_name=MANIFEST_BLOB)))
            names = [file["filename"] for file in manifest["files"] if file["filename"].endswith(".fidx")]
            for name in names:
                yield from list_digests(connection.get("previous", archive_name=name))
        except ServerFailed as error:
            if error.status is None:
                raise
        except (Damaged, ValueError, KeyError, TypeError):
            return

    # --- disks

    def begin_disk(self, size: int, previous: DiskEntry | None) -> int:
        connection = self.connect()
        self.close_index()
        count, name = -(-size // CHUNK_BYTES), name_archive(len(self.files))
        # The last chunk is filled with zeros, and so is the image.
        writer = connection.post("fixed_index", archive_name=name, size=count * CHUNK_BYTES)
        self.index = OpenIndex(name, writer, count)
        return CHUNK_BYTES

    def add(self, data: bytes | bytearray) -> bytes:
        if not any_byte(data):
            return ZERO_CHUNK
        digest = self.store.key.compute_digest(data)
        with self.lock:
            if digest in self.known:
                return digest
            self.known.add(digest)
        self.upload(digest, data)
        with self.lock:
            self.chunks_stored += 1
        return digest

    def upload(self, digest: bytes, data: bytes | bytearray) -> None:
        blob, index = self.store.key.encode(data), self.get_index()
        sizes = {"size": len(data), "encoded_size": len(blob)}
        self.connect().upload("fixed_chunk", blob, wid=index.writer, digest=digest.hex(), **sizes)
        with self.lock:
            self.statistics.bytes_uploaded += len(blob)

    def get_index(self) -> OpenIndex:
        if self.index is None:
            raise AssertionError("No disk was begun.")
        return self.index

    def has(self, name: bytes) -> bool:
        return name in self.known

    def add_table(self, names: bytes) -> bytes:
        index, zero_digest = self.get_index(), self.store.zero_digest
        chunks = list(iterate_names(names))[: index.count - index.written]
        digests = [zero_digest if name == ZERO_CHUNK else name for name in chunks]
        if zero_digest in digests and zero_digest not in self.known:
            self.upload(zero_digest, bytes(CHUNK_BYTES))
            self.known.add(zero_digest)
        for batch in split_batches(digests, MAX_DIGESTS_PER_REQUEST):
            offsets = [(index.written + number) * CHUNK_BYTES for number in range(len(batch))]
            values = {"digest-list": [digest.hex() for digest in batch], "offset-list": offsets}
            self.connect().put("fixed_index", {"wid": index.writer} | values)
            index.checksum.update(b"".join(batch))
            index.written += len(batch)
        return self.store.add_table(names)

    def close_index(self) -> None:
        if self.index is None:
            return
        index, self.index = self.index, None
        size, checksum = index.count * CHUNK_BYTES, index.checksum.hexdigest()
        self.connect().post("fixed_close", wid=index.writer, chunk_count=index.written, size=size, csum=checksum)
        self.add_file(index.name, size, checksum)

    def add_file(self, name: str, size: int, checksum: str) -> None:
        self.files.append({"filename": name, "crypt-mode": "encrypt", "size": size, "csum": checksum})

    def commit(self, manifest: Manifest) -> None:
        connection = self.connect()
        self.close_index()
        # The tables are those of the indexes.
        disks = tuple(replace(disk, tables=()) for disk in manifest.disks)
        description = self.store.key.encode(replace(manifest, disks=disks).to_bytes())
        self.upload_blob(DESCRIPTION_BLOB, description)
        self.add_file(DESCRIPTION_BLOB, len(description), hashlib.sha256(description).hexdigest())
        if self.snapshot:
            self.upload_blob(MANIFEST_BLOB, encode_plain(build_manifest(self.snapshot, self.files, self.store.key)))
        connection.post("finish")

    def upload_blob(self, name: str, blob: bytes) -> None:
        self.connect().upload("blob", blob, file_name=name, encoded_size=len(blob))
