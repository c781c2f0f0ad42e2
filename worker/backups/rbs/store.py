"""A remote backup server as the store of one account's points.

Each point is a snapshot, with an index for each disk. Snapshots of one machine form a group of the server.
"""

import contextlib
import hashlib
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import structlog

from worker.backups import manifests
from worker.backups.errors import Damaged, ObjectNotFound
from worker.backups.keys import RepositoryKey
from worker.backups.manifests import ZERO_CHUNK, Manifest
from worker.backups.rbs.api import NOT_FOUND_STATUSES, Api, Server
from worker.backups.rbs.blobs import BlobKey
from worker.backups.rbs.errors import ServerFailed
from worker.backups.rbs.reader import SnapshotReader
from worker.backups.rbs.snapshots import CHUNK_BYTES, DESCRIPTION_BLOB, SnapshotDirectory, SnapshotState, name_archive
from worker.backups.rbs.writer import SnapshotWriter
from worker.backups.stores import PointStore

log = structlog.get_logger()

NO_SNAPSHOT = "The backup server has no such snapshot."


class RbsStore(PointStore):
    def __init__(
        self, server: Server, key: RepositoryKey, snapshots: SnapshotDirectory, *, verifies_new: bool = False
    ) -> None:
        """Nothing is sent yet. With `verifies_new` the server is asked to verify each new snapshot."""
        self.verifies_new = verifies_new
        self.api, self.key, self.snapshots = Api(server), BlobKey(key), snapshots
        self.zero_digest = self.key.compute_digest(bytes(CHUNK_BYTES))
        self.readers: dict[str, SnapshotReader] = {}
        """Point → its open reader. They stay open, because chunks are read through them."""
        self.tables: dict[str, bytes] = {}
        """The tables of the manifests that were read or written, by their names."""
        self.damaged: set[bytes] = set()
        self.lock = threading.Lock()

    def close(self) -> None:
        for reader in self.readers.values():
            reader.close()
        self.readers.clear()

    # --- points

    def fetch_snapshot_states(self, wanted: Collection[str] | None = None) -> dict[str, SnapshotState]:
        """Return the points that are stored, all or those of `wanted`, with what the server reports of them."""
        states: dict[tuple[str, str], dict[int, SnapshotState]] = {}
        points = {}
        for point, snapshot in self.snapshots.map_points().items():
            if wanted is not None and point not in wanted:
                continue
            group = snapshot.namespace, snapshot.group
            if group not in states:
                states[group] = self.api.fetch_snapshot_states(*group)
            if state := states[group].get(snapshot.time):
                points[point] = state
        return points

    def list_points(self) -> list[str]:
        return list(self.fetch_snapshot_states())

    def has_point(self, point: str) -> bool:
        snapshot = self.snapshots.find(point)
        return snapshot is not None and snapshot.time in self.api.fetch_snapshot_states(
            snapshot.namespace, snapshot.group
        )

    def delete_point(self, point: str) -> None:
        snapshot = self.snapshots.find(point)
        if snapshot is None:
            return
        try:
            self.api.delete(snapshot)
        except ServerFailed as error:
            if error.status not in NOT_FOUND_STATUSES or self.has_point(point):
                raise
        else:
            if self.has_point(point):
                raise ServerFailed("a deletion", "it still has the snapshot")

    def set_protected(self, point: str, protected: bool) -> None:
        if snapshot := self.snapshots.find(point):
            self.api.set_protected(snapshot, protected)

    # --- reading

    def read_manifest(self, point: str) -> Manifest:
        if not self.has_point(point):
            raise ObjectNotFound(NO_SNAPSHOT)
        reader = self.get_reader(point)
        manifest = Manifest.from_bytes(reader.read_blob(DESCRIPTION_BLOB))
        disks = []
        for number, disk in enumerate(manifest.disks):
            digests = reader.read_index(name_archive(number))
            names = [ZERO_CHUNK if digest == self.zero_digest else digest for digest in digests]
            disks.append(replace(disk, tables=tuple(self.add_tables(names))))
        return replace(manifest, disks=tuple(disks))

    def get_reader(self, point: str) -> SnapshotReader:
        snapshot = self.snapshots.find(point)
        if snapshot is None:
            raise ObjectNotFound(NO_SNAPSHOT)
        if point not in self.readers:
            self.readers[point] = SnapshotReader(self.api.upgrade("reader", snapshot), self.key)
        return self.readers[point]

    def add_tables(self, names: Sequence[bytes]) -> Iterator[str]:
        """Remember the tables of a disk; yield their names."""
        for start in range(0, len(names), manifests.TABLE_CHUNKS):
            part = names[start : start + manifests.TABLE_CHUNKS]
            yield self.add_table(b"".join(part).ljust(manifests.TABLE_CHUNKS * manifests.NAME_BYTES, b"\0")).hex()

    def add_table(self, table: bytes) -> bytes:
        name = hashlib.sha256(table).digest()
        self.tables[name.hex()] = table
        return name

    def read_table(self, name: str) -> bytes:
        if name not in self.tables:
            raise Damaged("The table belongs to a manifest that was not read.")
        return self.tables[name]

    def read_chunks(self, names: Sequence[bytes]) -> list[bytes]:
        return [self.read_chunk(name) for name in names]

    def read_chunk(self, name: bytes) -> bytes:
        reader = next((reader for reader in self.readers.values() if name in reader.digests), None)
        if reader is None:
            raise Damaged(f"The chunk {name.hex()} belongs to no snapshot that was read.")
        return reader.read_chunk(name)

    def mark_damaged(self, name: bytes) -> None:
        with self.lock:
            self.damaged.add(name)

    # --- writing

    @contextlib.contextmanager
    def open_writer(self, point: str) -> Iterator[SnapshotWriter]:
        writer = SnapshotWriter(self, point)
        try:
            yield writer
        finally:
            writer.close()
        if self.verifies_new:
            self.start_verification(point)

    def start_verification(self, point: str) -> None:
        """Have the server verify a snapshot. The point is complete without that."""
        if snapshot := self.snapshots.find(point):
            try:
                self.api.start_verification(snapshot)
            except ServerFailed as error:
                log.warning("backup_verification_not_requested", point=point, detail=str(error))
