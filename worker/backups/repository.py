"""A repository: chunks in packs, an index object for each pack, and a manifest for each point.

A pack is a sequence of entries: the chunk's name, the length of its encrypted content, the content. The same format is
used for every target.
"""

import contextlib
import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import zstandard

from worker.backups.batches import split_batches
from worker.backups.errors import Damaged, ObjectNotFound, StoreError, TargetFailed
from worker.backups.index import ChunkIndex, Location
from worker.backups.keys import RepositoryKey
from worker.backups.manifests import FORMAT_VERSION, NAME_BYTES, TABLE_CHUNKS, ZERO_CHUNK, Manifest
from worker.backups.stores import PointStore, StoreWriter
from worker.backups.targets import Target

log = logging.getLogger(__name__)

HEADER_BYTES = NAME_BYTES + 4
"""Bytes before the content of an entry of a pack: name and length."""

MAX_CHUNK_BYTES = 4 * 1024**2
"""Bytes to which a chunk may decompress."""

MAX_GAP_BYTES = 64 * 1024
"""Bytes between two chunks that are read as well, because that is faster than another request."""

INDEX_THREADS, MAX_INDEXES_AHEAD = 4, 64
"""Threads that read index objects, and index objects in memory."""

DESCRIPTION_OBJECT = "repository"

LEASE_SECONDS = 6 * 3600.0
"""A lease that was not renewed for this long has expired."""


class Repository(PointStore):
    """One repository with its key. Safe to use from several threads."""

    def __init__(self, target: Target, key: RepositoryKey, cache: Path | None = None) -> None:
        """Open a repository. `cache` is where its index is kept between uses."""
        self.target, self.key = target, key
        self.description = self.read_json(DESCRIPTION_OBJECT)
        if self.description["format"] != FORMAT_VERSION:
            raise StoreError(f"The repository has format {self.description['format']}.")
        self.index = ChunkIndex(cache)
        self.decompressors = threading.local()
        self.open_copy: Callable[[], Repository] | None = None
        """Opens a copy of this repository, from which chunks are read that cannot be read here."""
        self.is_target_failed = False
        """Whether a chunk was read from the copy because the target failed. Then all are."""
        self.has_found_damage = False
        """Whether a chunk that was read here is damaged."""
        self.refresh()

    @classmethod
    def create(cls, target: Target, key: RepositoryKey, cache: Path | None = None) -> "Repository":
        """Create the repository, unless the target has it, and open it."""
        try:
            target.stat(DESCRIPTION_OBJECT)
        except ObjectNotFound:
            description = {"format": FORMAT_VERSION, "id": str(uuid.uuid4())}
            target.put(DESCRIPTION_OBJECT, key.encrypt(DESCRIPTION_OBJECT.encode(), json.dumps(description).encode()))
        return cls(target, key, cache)

    def close(self) -> None:
        self.index.close()

    # --- small objects, encrypted under their names

    def read_object(self, name: str) -> bytes:
        return self.key.decrypt(name.encode(), self.target.get(name))

    def write_object(self, name: str, data: bytes) -> int:
        """Store the object; return its bytes."""
        blob = self.key.encrypt(name.encode(), data)
        self.target.put(name, blob)
        return len(blob)

    def read_json(self, name: str) -> Any:
        return json.loads(self.read_object(name))

    def write_json(self, name: str, value: Any) -> None:
        self.write_object(name, json.dumps(value).encode())

    def read_all(self, folder: str) -> Iterator[tuple[str, Any]]:
        """Yield the names and contents of a folder's objects. One that is deleted meanwhile is left out."""
        for name in self.target.list(folder):
            with contextlib.suppress(ObjectNotFound):
                yield name, self.read_json(name)

    # --- packs and their index

    def refresh(self) -> None:
        """Update the index from the target: what packs there are, which are going to be deleted, what is damaged."""
        names = {name.rpartition("/")[2] for name in self.target.list("index")}
        known = self.index.list_packs()
        self.index.remove_packs(known - names)
        with ThreadPoolExecutor(INDEX_THREADS, "backup index") as pool:
            for batch in split_batches(names - known, MAX_INDEXES_AHEAD):
                for name, index in zip(batch, pool.map(self.read_index, batch), strict=True):
                    if index is not None:
                        self.index.add_pack(name, unpack_index(index))
        self.index.set_garbage(pack for _, garbage in self.read_all("garbage") for pack in garbage["packs"])
        for name, chunks in self.read_all("damaged"):
            pack = name.rpartition("/")[2]
            self.index.set_damaged((pack, bytes.fromhex(chunk)) for chunk in chunks)

    def read_index(self, pack: str) -> bytes | None:
        """Return the pack's index object, or None when it was deleted meanwhile."""
        with contextlib.suppress(ObjectNotFound):
            return self.read_object(f"index/{pack}")
        return None

    def write_pack(self, entries: list[tuple[bytes, bytes]]) -> int:
        """Store a pack with these entries (name, encrypted content), then its index object; return their bytes. Without
        the index object nobody reads the pack."""
        name = uuid.uuid4().hex
        pieces = [piece for chunk, blob in entries for piece in (chunk, len(blob).to_bytes(4, "big"), blob)]
        data = b"".join(pieces)
        self.target.put(get_pack_object(name), data)
        index = b"".join(chunk + len(blob).to_bytes(4, "big") for chunk, blob in entries)
        size = len(data) + self.write_object(f"index/{name}", index)
        self.index.add_pack(name, unpack_index(index))
        return size

    def delete_pack(self, name: str) -> None:
        """Delete the pack, its index object first."""
        for part in (f"index/{name}", get_pack_object(name), f"damaged/{name}"):
            self.target.delete(part)
        self.index.remove_packs([name])

    def read_blob(self, name: bytes) -> bytes:
        """Return the encrypted content of a chunk. When it was moved to another pack meanwhile, it is read there."""
        for attempt in (1, 2):
            location = self.index.find(name)
            if location is not None:
                with contextlib.suppress(ObjectNotFound):
                    return self.target.get(get_pack_object(location.pack), location.start, location.length)
            if attempt == 1:
                self.refresh()
        raise Damaged(f"The chunk {name.hex()} is missing.")

    def read_blobs(self, names: Iterable[bytes]) -> dict[bytes, memoryview]:
        """Return the encrypted contents of those chunks that are where the index says. Neighbors in a pack are read by
        one request."""
        locations = {name: location for name in names if (location := self.index.find(name))}
        blobs = {}
        for neighbors in group_neighbors(locations):
            first, last = locations[neighbors[0]], locations[neighbors[-1]]
            with contextlib.suppress(ObjectNotFound):
                data = self.target.get(get_pack_object(first.pack), first.start, last.end - first.start)
                for name in neighbors:
                    start = locations[name].start - first.start
                    blobs[name] = memoryview(data)[start : start + locations[name].length]
        return blobs

    def read_chunk(self, name: bytes) -> bytes:
        """Return the content of a chunk. Raises `Damaged`."""
        return self.read_chunks([name])[0]

    def read_chunks(self, names: Sequence[bytes]) -> list[bytes]:
        """Return the contents of chunks, in the order of the names. Raises `Damaged`."""
        if not self.is_target_failed:
            try:
                return self.read_own_chunks(names)
            except Damaged:
                self.has_found_damage = True
                if self.open_copy is None:
                    raise
                log.warning("chunks are read from a copy, because they are damaged")
            except TargetFailed as error:
                if self.open_copy is None:
                    raise
                log.warning("chunks are read from a copy: %s", error)
                self.is_target_failed = True
        assert self.open_copy
        return self.open_copy().read_chunks(names)

    def read_own_chunks(self, names: Sequence[bytes]) -> list[bytes]:
        blobs = self.read_blobs(names)
        return [self.decode(name, blobs.get(name) or self.read_blob(name)) for name in names]

    def decode(self, name: bytes, blob: bytes | memoryview) -> bytes:
        data = self.key.decrypt(name, blob)
        if not hasattr(self.decompressors, "zstd"):
            self.decompressors.zstd = zstandard.ZstdDecompressor()
        return self.decompressors.zstd.decompress(data, max_output_size=MAX_CHUNK_BYTES)

    def read_table(self, name: str) -> bytes:
        """Return a table: the names of `TABLE_CHUNKS` chunks."""
        chunk = bytes.fromhex(name)
        return bytes(TABLE_CHUNKS * NAME_BYTES) if chunk == ZERO_CHUNK else self.read_chunk(chunk)

    def mark_damaged(self, name: bytes) -> None:
        """Record that the chunk cannot be read where it is. The next backup that reads this content stores it again."""
        location = self.index.find(name)
        if location is None:
            return
        damaged = f"damaged/{location.pack}"
        try:
            names = set(self.read_json(damaged))
        except ObjectNotFound:
            names = set()
        self.write_json(damaged, sorted(names | {name.hex()}))
        self.index.set_damaged([(location.pack, name)])

    # --- points

    def list_points(self) -> list[str]:
        """Return the complete points, in no particular order."""
        return [name.removeprefix("points/") for name in self.target.list("points")]

    def has_point(self, point: str) -> bool:
        try:
            self.target.stat(f"points/{point}")
        except ObjectNotFound:
            return False
        return True

    def read_manifest(self, point: str) -> Manifest:
        return Manifest.from_bytes(self.read_object(f"points/{point}"))

    def write_manifest(self, manifest: Manifest) -> None:
        self.write_object(f"points/{manifest.point}", manifest.to_bytes())

    def delete_point(self, point: str) -> None:
        """After success the point does not exist. Its space is freed by the garbage collection."""
        self.target.delete(f"points/{point}")

    def open_writer(self, point: str) -> AbstractContextManager[StoreWriter]:
        from worker.backups.writer import open_writer  # it needs this module

        return open_writer(self)

    # --- leases

    def write_lease(self, lease: str) -> None:
        self.write_json(f"leases/{lease}", {"renewed_at": time.time()})

    def list_leases(self) -> list[str]:
        """Return the leases that have not expired; delete the others."""
        leases = []
        for name, lease in self.read_all("leases"):
            if lease["renewed_at"] + LEASE_SECONDS < time.time():
                self.target.delete(name)
            else:
                leases.append(name.removeprefix("leases/"))
        return leases


def get_pack_object(name: str) -> str:
    return f"packs/{name[:2]}/{name}"


def group_neighbors(locations: dict[bytes, Location]) -> list[list[bytes]]:
    """Group the chunks of each pack by gaps that are too large to be read as well."""
    groups: list[list[bytes]] = []
    end: tuple[str, int] | None = None
    for name, location in sorted(locations.items(), key=lambda item: (item[1].pack, item[1].start)):
        if end is None or location.pack != end[0] or location.start > end[1] + MAX_GAP_BYTES:
            groups.append([])
        groups[-1].append(name)
        end = location.pack, location.end
    return groups


def unpack_index(index: bytes) -> Iterable[tuple[bytes, int, int]]:
    """Yield the entries of a pack: name, start and length of the content."""
    start = 0
    for position in range(0, len(index), HEADER_BYTES):
        name, size = index[position : position + NAME_BYTES], index[position + NAME_BYTES : position + HEADER_BYTES]
        start += HEADER_BYTES
        yield name, start, int.from_bytes(size, "big")
        start += int.from_bytes(size, "big")
