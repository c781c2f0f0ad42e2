"""What backups need of a store. Repositories of chunks and remote backup servers have it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from worker.backups.manifests import NAME_BYTES, TABLE_CHUNKS, ZERO_CHUNK, DiskEntry, Manifest, PointStatistics


class StoreWriter(Protocol):
    """Stores one point: for each disk in turn its chunks and tables. `add` is safe to call from several threads."""

    statistics: PointStatistics
    chunks_stored: int

    def begin_disk(self, size: int, previous: DiskEntry | None) -> int:
        """Begin a disk of that size; return the size of its chunks. `previous` is the disk in the previous point."""

    def add(self, data: bytes | bytearray) -> bytes:
        """Store a chunk unless the store has it; return its name, `ZERO_CHUNK` for one of zeros."""

    def add_table(self, names: bytes) -> bytes:
        """Store the next table of the disk; return its name."""

    def has(self, name: bytes) -> bool:
        """Return whether a chunk that an earlier point uses can be relied on."""

    def commit(self, manifest: Manifest) -> None:
        """After success the point exists."""


class PointStore(ABC):
    """Takes the disks of points and gives them back. Safe to use from several threads."""

    @abstractmethod
    def list_points(self) -> list[str]:
        """Return the complete points, in no particular order."""

    @abstractmethod
    def has_point(self, point: str) -> bool:
        """Return whether the point is stored. Raises `StoreError` when that is not known."""

    @abstractmethod
    def read_manifest(self, point: str) -> Manifest:
        """Return the manifest of a point. Raises `ObjectNotFound` and `Damaged`."""

    @abstractmethod
    def delete_point(self, point: str) -> None:
        """After success the point does not exist."""

    @abstractmethod
    def read_table(self, name: str) -> bytes:
        """Return a table: the names of `TABLE_CHUNKS` chunks. Raises `Damaged`."""

    @abstractmethod
    def read_chunks(self, names: Sequence[bytes]) -> list[bytes]:
        """Return the contents of chunks, in the order of the names. Raises `Damaged`."""

    @abstractmethod
    def mark_damaged(self, name: bytes) -> None:
        """Record that the chunk cannot be read. The next backup that reads this content stores it again."""

    @abstractmethod
    def open_writer(self, point: str) -> AbstractContextManager[StoreWriter]:
        """Return the writer of a new point. When it is closed without a commit, there is no such point."""

    @abstractmethod
    def close(self) -> None:
        """Close what is open: connections and files."""

    def read_chunk(self, name: bytes) -> bytes:
        """Return the content of a chunk. Raises `Damaged`."""
        return self.read_chunks([name])[0]

    def list_chunks(self, disk: DiskEntry, first_table: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the offset and name of each chunk that is not zero."""
        for number, table in enumerate(disk.tables[first_table:], start=first_table):
            for position, name in enumerate(iterate_names(self.read_table(table))):
                if name != ZERO_CHUNK:
                    yield (number * TABLE_CHUNKS + position) * disk.chunk_size, name


def iterate_names(table: bytes) -> Iterator[bytes]:
    return (table[start : start + NAME_BYTES] for start in range(0, len(table), NAME_BYTES))
