"""Finding the chunks that points use."""

from collections.abc import Iterator, Mapping

from worker.backups.errors import Damaged, ObjectNotFound
from worker.backups.manifests import ZERO_CHUNK, Manifest
from worker.backups.repository import Repository
from worker.backups.stores import iterate_names


def mark_live(repository: Repository, labels: Mapping[str, str] | None = None) -> dict[str, list[str]]:
    """Record in the index which chunks the points use, their tables included. Returns the points whose manifest or
    tables cannot be read, with the names of the damaged tables. A chunk gets the first label of its points."""
    labels = labels or {}
    index, unreadable = repository.index, dict[str, list[str]]()
    index.clear_live()
    for point in sorted(repository.list_points(), key=lambda name: (name not in labels, labels.get(name, ""))):
        try:
            manifest = repository.read_manifest(point)
        except ObjectNotFound:  # deleted meanwhile
            continue
        except Damaged:
            unreadable[point] = []
            continue
        for table in list_tables(manifest):
            if not index.is_live(bytes.fromhex(table)):
                try:
                    names = set(iterate_names(repository.read_table(table)))
                except Damaged:
                    unreadable.setdefault(point, []).append(table)
                    continue
                index.add_live((names - {ZERO_CHUNK}) | {bytes.fromhex(table)}, labels.get(point))
    index.locate_live()
    return unreadable


def list_tables(manifest: Manifest) -> Iterator[str]:
    """Yield the names of the stored tables."""
    return (table for disk in manifest.disks for table in disk.tables if table != ZERO_CHUNK.hex())
