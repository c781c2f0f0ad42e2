"""Reading the chunks of a disk in order, several at once."""

import collections
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from worker.backups.batches import split_batches
from worker.backups.manifests import DiskEntry
from worker.backups.stores import PointStore

THREADS, MAX_BATCHES_AHEAD, BATCH_BYTES = 4, 4, 4 * 1024**2
"""Threads that read and decrypt, batches of chunks that may be in memory, and bytes of the disk in a batch."""

Batch = list[tuple[int, bytes]]
"""Offsets and names of chunks."""


def read_chunks(repository: PointStore, disk: DiskEntry) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and content of each chunk that is not zero. The last chunk may go beyond the disk's end."""
    pending: collections.deque[tuple[Batch, Future[list[bytes]]]] = collections.deque()
    with ThreadPoolExecutor(THREADS, "backup read") as pool:
        try:
            for batch in split_batches(repository.list_chunks(disk), BATCH_BYTES // disk.chunk_size):
                pending.append((batch, pool.submit(repository.read_chunks, [name for _, name in batch])))
                if len(pending) >= MAX_BATCHES_AHEAD:
                    yield from take_batch(pending)
            while pending:
                yield from take_batch(pending)
        finally:
            pool.shutdown(cancel_futures=True)


def take_batch(pending: collections.deque[tuple[Batch, Future[list[bytes]]]]) -> Iterator[tuple[int, bytes]]:
    batch, contents = pending.popleft()
    for (offset, _), content in zip(batch, contents.result(), strict=True):
        yield offset, content
