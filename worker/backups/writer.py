"""Writing a point: chunks are compressed, encrypted, gathered in packs and stored; the manifest comes last."""

import contextlib
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import zstandard

from worker.backups.errors import LeaseLost, ObjectNotFound
from worker.backups.manifests import ZERO_CHUNK, DiskEntry, Manifest, PointStatistics, choose_chunk_size
from worker.backups.repository import HEADER_BYTES, LEASE_SECONDS, Repository

PACK_BYTES = 16 * 1024**2
"""Bytes from which a pack is stored. Two are in memory: one that is filled and one that is being stored."""

COMPRESSION_LEVEL = 3
LEASE_RENEWAL_SECONDS = LEASE_SECONDS / 12


class PointWriter:
    """Stores chunks for one point. `add` is safe to call from several threads."""

    def __init__(self, repository: Repository, lease: str) -> None:
        self.repository, self.lease = repository, lease
        self.statistics = PointStatistics()
        self.chunks_stored = 0
        """With the tables."""
        self.lock = threading.Lock()
        self.entries: list[tuple[bytes, bytes]] = []
        self.entries_bytes = 0
        self.new_names: set[bytes] = set()
        """Chunks of packs that are not stored yet."""
        self.uploader = ThreadPoolExecutor(1, "backup upload")
        self.upload: Future[None] | None = None
        self.compressors = threading.local()
        self.renewed_at = time.monotonic()

    def begin_disk(self, size: int, previous: DiskEntry | None) -> int:
        """Return the size of the disk's chunks, which stays that of the previous point."""
        return previous.chunk_size if previous else choose_chunk_size(size)

    def add_table(self, names: bytes) -> bytes:
        """Store a table, which is a chunk itself."""
        return self.add(names)

    def add(self, data: bytes | bytearray) -> bytes:
        """Store a chunk unless the repository has it; return its name, `ZERO_CHUNK` for one of zeros."""
        if not any_byte(data):
            return ZERO_CHUNK
        name = self.repository.key.name_chunk(data)
        if self.claim_chunk(name):
            if not hasattr(self.compressors, "zstd"):
                self.compressors.zstd = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL)
            self.append(name, self.repository.key.encrypt(name, self.compressors.zstd.compress(data)))
        return name

    def claim_chunk(self, name: bytes) -> bool:
        """Return whether the caller must store the chunk."""
        with self.lock:
            if name in self.new_names or self.repository.index.has(name):
                return False
            self.new_names.add(name)
            return True

    def has(self, name: bytes) -> bool:
        """Return whether a chunk that an earlier point uses can be relied on."""
        return name in self.new_names or self.repository.index.has(name)

    def append(self, name: bytes, blob: bytes) -> None:
        with self.lock:
            self.chunks_stored += 1
            self.entries.append((name, blob))
            self.entries_bytes += HEADER_BYTES + len(blob)
            if self.entries_bytes >= PACK_BYTES:
                self.start_upload()

    def start_upload(self) -> None:
        """Hand the pack to the thread that stores it, when that has stored the last one."""
        self.wait_for_upload()
        entries, self.entries, self.entries_bytes = self.entries, [], 0
        if entries:
            self.upload = self.uploader.submit(self.store_pack, entries)

    def store_pack(self, entries: list[tuple[bytes, bytes]]) -> None:
        self.renew_lease()
        self.statistics.bytes_uploaded += self.repository.write_pack(entries)
        self.new_names.difference_update(name for name, _ in entries)

    def wait_for_upload(self) -> None:
        if self.upload is not None:
            upload, self.upload = self.upload, None
            upload.result()

    def renew_lease(self) -> None:
        """Renew the lease if it is time. Raises `LeaseLost` when it may have expired."""
        age = time.monotonic() - self.renewed_at
        if age > LEASE_SECONDS / 2:
            raise LeaseLost("The lease of this point was not renewed in time.")
        if age > LEASE_RENEWAL_SECONDS:
            self.repository.write_lease(self.lease)
            self.renewed_at = time.monotonic()

    def flush(self) -> None:
        """After success every chunk that was added is stored."""
        with self.lock:
            self.start_upload()
            self.wait_for_upload()

    def commit(self, manifest: Manifest) -> None:
        """After success the point exists. Only a writer whose lease still exists may commit: until then nothing that
        the point uses was deleted."""
        self.flush()
        self.renew_lease()
        try:
            self.repository.target.stat(f"leases/{self.lease}")
        except ObjectNotFound as error:
            raise LeaseLost("The lease of this point has expired.") from error
        self.repository.write_manifest(manifest)

    def close(self) -> None:
        self.uploader.shutdown()


def any_byte(data: bytes | bytearray) -> bool:
    """Return whether any byte is not zero."""
    return data != bytes(len(data))


@contextlib.contextmanager
def open_writer(repository: Repository) -> Iterator[PointWriter]:
    """Yield a writer. Its lease is written before the index is read: so the garbage collection knows of every writer
    that may use a chunk which it is going to delete."""
    lease = uuid.uuid4().hex
    repository.write_lease(lease)
    writer = PointWriter(repository, lease)
    try:
        repository.refresh()
        yield writer
    finally:
        writer.close()
        repository.target.delete(f"leases/{lease}")
