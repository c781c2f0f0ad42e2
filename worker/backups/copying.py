"""Copying a point to another repository with the same key.

The encrypted chunks are copied as they are, into packs of the copy's own. So neither repository depends on the packs of
the other, and each frees its space by itself. The manifest comes last.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from worker.backups.batches import split_batches
from worker.backups.errors import Damaged, TargetFailed
from worker.backups.live_chunks import list_tables
from worker.backups.manifests import ZERO_CHUNK, Manifest
from worker.backups.repository import DESCRIPTION_OBJECT, Repository, get_pack_object
from worker.backups.stores import iterate_names
from worker.backups.targets import ObjectStat, Target
from worker.backups.writer import PointWriter, open_writer

THREADS, BATCH_CHUNKS, MAX_BATCHES_AHEAD = 4, 4, 8
"""Threads that read and check chunks, chunks that one of them reads at once, and batches in memory."""

LOCK_RESERVE_RATIO = 0.25
"""A lock that must become longer is made that much longer than necessary, so that the packs which many points share are
not locked again for each of them."""

PACKS_PER_RENEWAL = 256


class VerifiedTarget(Target):
    """Reads every object again after it was stored."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def put(self, name: str, data: bytes) -> None:
        self.target.put(name, data)
        if self.target.get(name) != data:
            self.target.delete(name)
            raise TargetFailed(f"The target returned {name} with another content than it was given.")

    def get(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        return self.target.get(name, offset, length)

    def list(self, folder: str) -> Iterator[str]:
        return self.target.list(folder)

    def stat(self, name: str) -> ObjectStat:
        return self.target.stat(name)

    def delete(self, name: str) -> None:
        self.target.delete(name)

    def delete_incomplete(self, seconds: float) -> None:
        self.target.delete_incomplete(seconds)

    def has_object_lock(self) -> bool:
        return self.target.has_object_lock()

    def lock(self, name: str, until: float) -> float:
        return self.target.lock(name, until)

    def is_locked(self, name: str) -> bool:
        return self.target.is_locked(name)


def copy_point(
    source: Repository,
    copy: Repository,
    point: str,
    *,
    locked_until: float | None = None,
    progress: Callable[[int, int], None] | None = None,
    on_chunk: Callable[[int], None] | None = None,
) -> int:
    """Store a point of `source` in `copy` as well, and return the bytes that it added. What an interrupted attempt has
    stored is not copied again. With `locked_until` (seconds since the epoch) the storage keeps until then everything
    that the point needs. `progress` is called with the bytes of the disks, done and in total, and `on_chunk` with the
    stored bytes of each chunk; if one raises, there is no such point in the copy."""
    manifest = source.read_manifest(point)
    total, done = sum(disk.size for disk in manifest.disks), 0
    with open_writer(copy) as writer:
        for disk in manifest.disks:
            for table in disk.tables:
                for size in copy_table(source, writer, table):
                    if on_chunk:
                        on_chunk(size)
                done += disk.size // len(disk.tables)
                if progress:
                    progress(done, total)
        writer.flush()
        if locked_until is not None:
            lock_packs(copy, writer, manifest, locked_until)
        writer.commit(manifest)
        if locked_until is not None:
            for name in (f"points/{point}", DESCRIPTION_OBJECT):
                copy.target.lock(name, locked_until)
        return writer.statistics.bytes_uploaded


def copy_table(source: Repository, writer: PointWriter, table: str) -> Iterator[int]:
    """Store the chunks of a table, then the table itself. Yield the stored bytes of each chunk that was copied."""
    if table == ZERO_CHUNK.hex():
        return
    [(table_name, table_blob)] = read_intact(source, [bytes.fromhex(table)])
    names = dict.fromkeys(iterate_names(source.decode(table_name, table_blob)))
    names.pop(ZERO_CHUNK, None)
    with ThreadPoolExecutor(THREADS, "backup copy") as pool:
        missing = (name for name in names if writer.claim_chunk(name))
        for batches in split_batches(split_batches(missing, BATCH_CHUNKS), MAX_BATCHES_AHEAD):
            for blobs in pool.map(lambda batch: read_intact(source, batch), batches):
                for name, blob in blobs:
                    writer.append(name, blob)
                    yield len(blob)
    if writer.claim_chunk(table_name):
        writer.append(table_name, table_blob)
        yield len(table_blob)


def read_intact(source: Repository, names: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Return the names and encrypted contents of chunks. Raises `Damaged` unless each has the content of its name."""
    blobs, result = source.read_blobs(names), []
    for name in names:
        try:
            blob = bytes(blobs.get(name) or source.read_blob(name))
            if source.key.name_chunk(source.decode(name, blob)) != name:
                raise Damaged(f"The chunk {name.hex()} has another content.")
        except Damaged:
            source.mark_damaged(name)
            raise
        result.append((name, blob))
    return result


def lock_packs(copy: Repository, writer: PointWriter, manifest: Manifest, until: float) -> None:
    """Lock the packs that the point uses, with their index objects."""
    until_with_reserve = until + (until - time.time()) * LOCK_RESERVE_RATIO

    def lock_pack(pack: str) -> tuple[str, float]:
        objects = f"index/{pack}", get_pack_object(pack)
        return pack, min(copy.target.lock(name, until_with_reserve) for name in objects)

    packs = list_used_packs(copy, manifest, until)
    with ThreadPoolExecutor(THREADS, "backup lock") as pool:
        for batch in split_batches(packs, PACKS_PER_RENEWAL):
            for pack, locked_until in pool.map(lock_pack, batch):
                copy.index.set_lock(pack, locked_until)
            writer.renew_lease()


def list_used_packs(copy: Repository, manifest: Manifest, locked_until: float) -> Iterable[str]:
    """Return the packs that the point uses, without those that are known to be locked until that time."""
    copy.index.clear_live()
    for table in dict.fromkeys(list_tables(manifest)):
        names = set(iterate_names(copy.read_table(table)))
        copy.index.add_live((names - {ZERO_CHUNK}) | {bytes.fromhex(table)})
    copy.index.locate_live()
    return copy.index.list_live_packs(locked_until)
