"""Reading the chunks of a disk in order, several at once."""

import collections
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from worker.backups.manifests import DiskEntry
from worker.backups.repository import Repository

THREADS, MAX_CHUNKS_AHEAD = 2, 6
"""Threads that read and decrypt, and chunks that may be in memory."""


def read_chunks(repository: Repository, disk: DiskEntry) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and content of each chunk that is not zero. The last chunk may go beyond the disk's end."""
    pending: collections.deque[tuple[int, Future[bytes]]] = collections.deque()
    with ThreadPoolExecutor(THREADS, "backup read") as pool:
        try:
            for offset, name in repository.list_chunks(disk):
                pending.append((offset, pool.submit(repository.read_chunk, name)))
                if len(pending) >= MAX_CHUNKS_AHEAD:
                    first_offset, chunk = pending.popleft()
                    yield first_offset, chunk.result()
            while pending:
                first_offset, chunk = pending.popleft()
                yield first_offset, chunk.result()
        finally:
            pool.shutdown(cancel_futures=True)
