"""Verification: reads chunks, names the damaged ones and the points that use them."""

from collections.abc import Callable
from dataclasses import dataclass, field

from worker.backups.batches import split_batches
from worker.backups.errors import Damaged, ObjectNotFound
from worker.backups.live_chunks import list_tables, mark_live
from worker.backups.manifests import ZERO_CHUNK
from worker.backups.repository import Repository
from worker.backups.stores import iterate_names

BATCH_CHUNKS = 16
"""Chunks that are in memory. Neighbors among them are read by one request."""


@dataclass
class Verification:
    """The result of a verification."""

    chunks_checked: int = 0
    damaged_chunks: set[str] = field(default_factory=set)
    """Names, in hexadecimal."""
    damaged_points: set[str] = field(default_factory=set)
    """Points that use a damaged chunk, or whose manifest is damaged."""


def verify(repository: Repository, ratio: float = 1.0, progress: Callable[[int], None] | None = None) -> Verification:
    """Read all manifests and tables, and that ratio of the other chunks, chosen at random; also of those that no point
    uses, while a table is damaged. Damaged chunks are marked, so that the next backup that reads their content stores
    them again. `progress` is called with the stored bytes of each chunk; if it raises, the verification ends."""
    result = Verification()
    repository.refresh()
    unreadable = mark_live(repository)
    result.damaged_points.update(unreadable)
    result.damaged_chunks.update(table for tables in unreadable.values() for table in tables)
    if result.damaged_chunks:  # what damaged tables name may be damaged as well: the next backup must not use it
        repository.index.add_all_live()
        repository.index.locate_live()
    total = repository.index.count_live()
    count = round(total * ratio)
    for names in split_batches(repository.index.sample_live(count), BATCH_CHUNKS):
        blobs = repository.read_blobs(names)
        for name in names:
            result.chunks_checked += 1
            blob = blobs.get(name)
            if not is_intact(repository, name, blob):
                result.damaged_chunks.add(name.hex())
            if progress:
                progress(len(blob or b""))
    if result.damaged_chunks:
        result.damaged_points |= find_points(repository, result.damaged_chunks)
    for chunk in result.damaged_chunks:
        repository.mark_damaged(bytes.fromhex(chunk))
    return result


def is_intact(repository: Repository, name: bytes, blob: memoryview | None) -> bool:
    """Return whether the chunk is stored and has the content of its name."""
    try:
        return repository.key.name_chunk(repository.decode(name, blob or repository.read_blob(name))) == name
    except Damaged:
        return False


def find_points(repository: Repository, damaged: set[str]) -> set[str]:
    """Return the points that use one of the chunks."""
    names = {bytes.fromhex(name) for name in damaged}
    points = set()
    for point in repository.list_points():
        try:
            tables = set(list_tables(repository.read_manifest(point)))
        except ObjectNotFound:
            continue
        except Damaged:
            points.add(point)
            continue
        if tables & damaged or any(has_chunk(repository, table, names) for table in tables):
            points.add(point)
    return points


def has_chunk(repository: Repository, table: str, names: set[bytes]) -> bool:
    return any(name in names for name in iterate_names(repository.read_table(table)) if name != ZERO_CHUNK)
