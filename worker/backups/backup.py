"""Backing up the disks of a machine, or volumes in no machine."""

import collections
import contextlib
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from panel.core import clock
from worker.backups.errors import Damaged
from worker.backups.firmware_states import pack_state
from worker.backups.manifests import NAME_BYTES, TABLE_CHUNKS, ZERO_CHUNK, DiskEntry, Manifest
from worker.backups.rate_limit import RateLimit
from worker.backups.stores import PointStore, StoreWriter
from worker.nodes.base import BackupJob, BackupReader, Disk, Extent, NodeDriver, NodeError, Progress

log = structlog.get_logger()

THREADS, MAX_CHUNKS_IN_FLIGHT = 2, 6
"""Threads that compress and encrypt, and chunks that may wait for them."""


@dataclass(frozen=True)
class BackupRequest:
    """What to back up, and how."""

    point: str
    """The id of the new point; unique in the repository."""
    disks: tuple[Disk, ...]
    machine_id: str | None = None
    """None: the disks are volumes in no machine."""
    machine: dict[str, Any] = field(default_factory=dict)
    """A description to be stored with the point."""
    previous: Manifest | None = None
    """The last point of the same disks in this repository; None reads everything."""
    full_read_reason: str = "first_backup"
    """Why there is no previous point, if there is none."""
    other_checkpoints: tuple[str, ...] = ()
    """Checkpoints of the machine that other repositories need."""
    reset_disks: frozenset[str] = frozenset()
    """Names of disks that are read completely, although the others are not."""
    bytes_per_second: int = 0
    """How fast the disks may be read; 0 is unlimited."""
    firmware_machine_id: str | None = None
    """The machine whose state of firmware and TPM is stored as well."""

    @property
    def checkpoint(self) -> str:
        return f"backup-{self.point}"


def backup_machine(
    node: NodeDriver, repository: PointStore, request: BackupRequest, progress: Progress | None = None
) -> Manifest:
    """Back up the disks, all as they were at one moment. Returns the manifest of the new point, which is complete.

    `progress` is called with (bytes done, bytes in total), for what the node does first and then for the bytes of the
    disks; if it raises, the backup ends. After failure the repository has no such point, and the machine has the
    checkpoints from before.
    """
    try:
        return make_point(node, repository, request, progress)
    except IncrementImpossible:
        log.warning("backup_full_read", point=request.point)
        everything = replace(request, previous=None, full_read_reason="missing_chunks")
        return make_point(node, repository, everything, progress)


def make_point(node: NodeDriver, repository: PointStore, request: BackupRequest, progress: Progress | None) -> Manifest:
    checkpoint = previous_checkpoint = request.previous.checkpoint if request.previous else None
    try:
        with repository.open_writer(request.point) as writer:
            firmware = pack_state(node.read_firmware_state(of)) if (of := request.firmware_machine_id) else {}
            with run_job(node, request, previous_checkpoint, progress) as job:
                created_at = clock.now()
                entries = DiskBackups(node, repository, writer, request, job, progress).run()
            manifest = Manifest(
                point=request.point,
                created_at=created_at.isoformat(),
                disks=entries,
                consistency=job.consistency,
                checkpoint=job.checkpoint or previous_checkpoint,
                parent=request.previous.point if request.previous else None,
                machine=request.machine,
                firmware=firmware,
                statistics=writer.statistics,
            )
            writer.commit(manifest)
        checkpoint = manifest.checkpoint
    finally:
        if request.machine_id is not None:
            with log_failure("checkpoints_left"):
                retained = (*request.other_checkpoints, *([checkpoint] if checkpoint else ()))
                node.delete_checkpoints(request.machine_id, retained)
    return manifest


@contextlib.contextmanager
def run_job(
    node: NodeDriver, request: BackupRequest, previous_checkpoint: str | None, progress: Progress | None
) -> Iterator[BackupJob]:
    """Begin a job on the node, and end it after the block."""
    try:
        arguments = request.checkpoint, previous_checkpoint, progress, request.bytes_per_second, request.reset_disks
        yield node.begin_backup(request.machine_id, request.disks, *arguments)
    finally:
        with log_failure("backup_job_left"):
            node.end_backup(request.machine_id, [(disk.pool, disk.name) for disk in request.disks])


@contextlib.contextmanager
def log_failure(event: str) -> Iterator[None]:
    """Log a failure to clean up. The next backup of the machine cleans up too."""
    try:
        yield
    except NodeError as error:
        log.warning(event, detail=error.detail)


class IncrementImpossible(Exception):
    """An increment cannot be made, because chunks of the previous point are missing or damaged."""


class DiskBackups:
    """Copies the disks of one job to the repository."""

    def __init__(
        self,
        node: NodeDriver,
        repository: PointStore,
        writer: StoreWriter,
        request: BackupRequest,
        job: BackupJob,
        progress: Progress | None,
    ) -> None:
        self.node, self.repository, self.writer, self.request, self.job = node, repository, writer, request, job
        self.progress = progress
        self.limit = RateLimit(request.bytes_per_second)
        self.done, self.total = 0, sum(disk.size for disk in request.disks)

    def run(self) -> tuple[DiskEntry, ...]:
        with ThreadPoolExecutor(THREADS, "backup store") as pool:
            return tuple(self.back_up_disk(disk, pool) for disk in self.request.disks)

    def back_up_disk(self, disk: Disk, pool: ThreadPoolExecutor) -> DiskEntry:
        previous = self.request.previous.find_disk(disk.name) if self.request.previous else None
        with self.node.open_backup(self.request.machine_id, disk) as reader:
            reason = self.find_full_read_reason(disk, previous)
            if reason and self.job.full_read_reasons[disk.name] is None:
                raise IncrementImpossible
            chunk_size = self.writer.begin_disk(reader.size, previous)
            tables = []
            for first in range(0, -(-reader.size // chunk_size), TABLE_CHUNKS):
                number = first // TABLE_CHUNKS
                old = previous.tables[number] if previous and not reason and number < len(previous.tables) else None
                copy = TableCopy(self, reader, pool, chunk_size, first)
                tables.append(copy.run(old).hex())
                self.report_progress(min((first + TABLE_CHUNKS) * chunk_size, reader.size) - first * chunk_size)
            mode = "full" if reason else "incremental"
            return DiskEntry(disk.name, reader.size, chunk_size, tuple(tables), mode, reason)

    def find_full_read_reason(self, disk: Disk, previous: DiskEntry | None) -> str | None:
        """Return why the disk is read completely, or None."""
        if self.request.previous is None:
            return self.request.full_read_reason
        if disk.name in self.request.reset_disks:
            return "chain_reset"
        return self.job.full_read_reasons.get(disk.name) or (None if previous else "new_disk")

    def report_progress(self, size: int) -> None:
        self.done += size
        if self.progress:
            self.progress(min(self.done, self.total), self.total)


class TableCopy:
    """Copies the chunks of one table to the repository: those with a listed extent. The content of the others, and the
    rest of a chunk that changed in part, is that of the old table, or zero without one."""

    def __init__(
        self, backups: DiskBackups, reader: BackupReader, pool: ThreadPoolExecutor, chunk_size: int, first: int
    ) -> None:
        self.backups, self.reader, self.pool = backups, reader, pool
        self.writer, self.chunk_size, self.first = backups.writer, chunk_size, first
        self.numbers = range(first, min(first + TABLE_CHUNKS, -(-reader.size // chunk_size)))
        self.names = bytearray(TABLE_CHUNKS * NAME_BYTES)
        self.slots = threading.BoundedSemaphore(MAX_CHUNKS_IN_FLIGHT)
        self.futures: list[Future[None]] = []
        self.ranges: dict[int, list[tuple[int, int]]] = {}
        """Chunk → the ranges within it that are read."""
        self.waiting: collections.deque[int] = collections.deque()
        """Chunks to be stored, in ascending order. `chunk` is the content of the first, once a byte of it was read."""
        self.chunk: bytearray | None = None

    def run(self, old: str | None) -> bytes:
        """Copy what is to be read; return the name of the new table. `old` is the table of the previous point."""
        start = self.first * self.chunk_size
        length = min(len(self.numbers) * self.chunk_size, self.reader.size - start)
        stored_before = self.writer.chunks_stored
        extents = self.reader.list_extents(start, length)
        self.add_ranges(extents)
        if old is not None:
            self.reuse_table(old)
        self.waiting.extend(sorted(self.ranges))
        self.reader.read(extents, self.write)
        self.store_until(self.numbers.stop)
        for future in self.futures:
            future.result()
        self.count_chunks(self.writer.chunks_stored - stored_before)
        return self.writer.add_table(bytes(self.names))

    def add_ranges(self, extents: Iterable[Extent]) -> None:
        for extent in extents:
            offset, end = extent.offset, extent.offset + extent.length
            while offset < end:
                number, position = divmod(offset, self.chunk_size)
                size = min(self.chunk_size - position, end - offset)
                self.ranges.setdefault(number, []).append((position, position + size))
                offset += size

    def reuse_table(self, old: str) -> None:
        """Reuse the names of the old table. Raises `IncrementImpossible` if a chunk cannot be relied on."""
        try:
            self.names[:] = self.backups.repository.read_table(old)
        except Damaged as error:
            raise IncrementImpossible from error
        for number in self.numbers:
            if (name := self.get_name(number)) != ZERO_CHUNK and not self.writer.has(name):
                raise IncrementImpossible

    def write(self, offset: int, data: bytes | bytearray) -> None:
        """Take bytes of the disk, in ascending order."""
        self.backups.limit.wait(len(data))
        self.writer.statistics.bytes_read += len(data)
        view = memoryview(data)
        while view:
            number, position = divmod(offset, self.chunk_size)
            self.store_until(number)
            if self.chunk is None:
                self.chunk = self.prepare_chunk(number)
            part = view[: self.chunk_size - position]
            self.chunk[position : position + len(part)] = part
            offset, view = offset + len(part), view[len(part) :]

    def prepare_chunk(self, number: int) -> bytearray:
        """Return the old content of a chunk, with zeros in the ranges that are read."""
        ranges, name = self.ranges[number], self.get_name(number)
        if name == ZERO_CHUNK or sum(end - start for start, end in ranges) == self.chunk_size:
            return bytearray(self.chunk_size)
        try:
            chunk = bytearray(self.backups.repository.read_chunk(name))
        except Damaged as error:
            self.backups.repository.mark_damaged(name)
            raise IncrementImpossible from error
        for start, end in ranges:
            chunk[start:end] = bytes(end - start)
        return chunk

    def store_until(self, limit: int) -> None:
        """Give the chunks before that number to the threads that store them."""
        while self.waiting and self.waiting[0] < limit:
            number = self.waiting.popleft()
            chunk, self.chunk = self.chunk, None
            if chunk is None:
                chunk = self.prepare_chunk(number)
            self.slots.acquire()
            self.futures = [future for future in self.futures if not future.done() or future.result()]
            self.futures.append(self.pool.submit(self.store_chunk, number, chunk))

    def store_chunk(self, number: int, chunk: bytearray) -> None:
        try:
            self.set_name(number, self.writer.add(chunk))
        finally:
            self.slots.release()

    def count_chunks(self, stored: int) -> None:
        statistics, used = self.writer.statistics, sum(self.get_name(number) != ZERO_CHUNK for number in self.numbers)
        statistics.chunks_stored += stored
        statistics.chunks_reused += used - stored
        statistics.bytes_used += used * self.chunk_size

    def set_name(self, number: int, name: bytes) -> None:
        position = (number - self.first) * NAME_BYTES
        self.names[position : position + NAME_BYTES] = name

    def get_name(self, number: int) -> bytes:
        position = (number - self.first) * NAME_BYTES
        return bytes(self.names[position : position + NAME_BYTES])
