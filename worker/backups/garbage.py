"""Garbage collection: deletes the packs that no point uses, and rewrites those of which little is used.

A pack is announced as garbage first and deleted by a later run, when the grace period is over and every writer that was
active at the announcement has finished. A writer that starts later reads the announcement and does not use the pack's
chunks; what an active writer still used makes the later run withdraw the announcement. No clocks of different machines
are compared for that. What the storage itself keeps for a time is neither deleted nor rewritten before that is over.
"""

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from worker.backups.errors import Damaged, ObjectNotFound, StoreError
from worker.backups.live_chunks import mark_live
from worker.backups.repository import HEADER_BYTES, Repository, get_pack_object
from worker.backups.writer import PACK_BYTES

GRACE_SECONDS = 24 * 3600.0
"""Seconds between the announcement and the deletion of a pack. Readers may use an index that old."""

MIN_USED_PACK_RATIO = 0.5
"""A pack of which less is used is rewritten."""

MIN_PACK_BYTES, MAX_SMALL_PACKS = PACK_BYTES // 4, 16
"""A pack with less is small; if there are more small packs than that, they are joined."""


@dataclass
class Collection:
    """What a garbage collection did."""

    packs_deleted: int = 0
    packs_announced: int = 0
    packs_rewritten: int = 0
    bytes_deleted: int = 0
    bytes_by_label: dict[str, int] = field(default_factory=dict)
    """Bytes of the chunks that labelled points use, each counted once, for the first of its labels."""


def collect_garbage(
    repository: Repository,
    grace_seconds: float = GRACE_SECONDS,
    progress: Callable[[int, int], None] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Collection:
    """Run once. The caller must see to it that one run at a time is active for a repository. `labels` has labels of
    some points."""
    collection = Collection()
    repository.refresh()
    leases = repository.list_leases()  # before the points: a writer that has finished has a point then
    if unreadable := mark_live(repository, labels):
        raise StoreError(f"Points that cannot be read: {', '.join(sorted(unreadable))}. Nothing was deleted.")
    collection.bytes_by_label = repository.index.sum_live_by_label()
    usage = {name: (size, used) for name, size, used, _ in repository.index.list_pack_usage()}
    announced = delete_announced_packs(repository, usage, leases, grace_seconds, collection)
    unused = [name for name, (_, used) in usage.items() if used == 0 and name not in announced]
    rewritten = choose_sparse_packs(
        {name: sizes for name, sizes in usage.items() if sizes[1] and name not in announced}
    )
    rewritten = [pack for pack in rewritten if not repository.target.is_locked(get_pack_object(pack))]
    rewrite_packs(repository, rewritten, progress)
    announce_garbage(repository, unused + rewritten)
    collection.packs_announced, collection.packs_rewritten = len(unused), len(rewritten)
    delete_unlisted_packs(repository, grace_seconds)
    repository.target.delete_incomplete(grace_seconds)
    return collection


def delete_announced_packs(
    repository: Repository,
    usage: dict[str, tuple[int, int]],
    leases: list[str],
    grace_seconds: float,
    collection: Collection,
) -> set[str]:
    """Delete what was announced long enough ago. Returns the packs that are still announced, or deleted."""
    announced: set[str] = set()
    for name, garbage in list(repository.read_all("garbage")):
        packs = [pack for pack in garbage["packs"] if pack in usage and usage[pack][1] == 0]
        writers = garbage["leases"]
        is_due = writers is not None and not set(writers) & set(leases)
        announced.update(packs)
        if is_due and garbage["announced_at"] + grace_seconds <= time.time():
            locked = [pack for pack in packs if repository.target.is_locked(get_pack_object(pack))]
            for pack in set(packs) - set(locked):
                repository.delete_pack(pack)
                collection.packs_deleted += 1
                collection.bytes_deleted += usage[pack][0]
            packs = locked
        if not packs:
            repository.target.delete(name)
        elif writers is None or packs != garbage["packs"]:
            writers = repository.list_leases() if writers is None else writers
            repository.write_json(name, garbage | {"packs": packs, "leases": writers})
    return announced


def announce_garbage(repository: Repository, packs: list[str]) -> None:
    """Announce the packs, then record which writers are active: only those may not have read the announcement."""
    if packs:
        name, garbage = f"garbage/{uuid.uuid4().hex}", {"packs": packs, "announced_at": time.time(), "leases": None}
        repository.write_json(name, garbage)
        repository.write_json(name, garbage | {"leases": repository.list_leases()})


def choose_sparse_packs(usage: dict[str, tuple[int, int]]) -> list[str]:
    """Return the packs to rewrite, of name → (size, used bytes)."""
    sparse = [name for name, (size, used) in usage.items() if used < size * MIN_USED_PACK_RATIO]
    small = [name for name, (size, _) in usage.items() if size < MIN_PACK_BYTES and name not in sparse]
    return sparse + (small if len(small) > MAX_SMALL_PACKS else [])


def rewrite_packs(repository: Repository, packs: list[str], progress: Callable[[int, int], None] | None) -> None:
    """Copy what is used of the packs to new ones."""
    entries: list[tuple[bytes, bytes]] = []
    size = 0
    for number, pack in enumerate(packs, start=1):
        for name in repository.index.list_live_of_pack(pack):
            try:
                blob = repository.read_blob(name)
                repository.key.decrypt(name, blob)
            except Damaged as error:
                repository.mark_damaged(name)
                raise StoreError(f"The chunk {name.hex()} is damaged. Verify the repository.") from error
            entries.append((name, blob))
            size += HEADER_BYTES + len(blob)
            if size >= PACK_BYTES:
                repository.write_pack(entries)
                entries, size = [], 0
        if progress:
            progress(number, len(packs))
    if entries:
        repository.write_pack(entries)


def delete_unlisted_packs(repository: Repository, grace_seconds: float) -> None:
    """Delete packs without an index object, which interrupted writers left."""
    known = repository.index.list_packs()
    for name in repository.target.list("packs"):
        pack = name.rpartition("/")[2]
        if pack not in known:
            try:
                is_old = repository.target.stat(name).modified_at + grace_seconds < time.time()
            except ObjectNotFound:
                continue
            if is_old and not repository.target.is_locked(name):
                repository.target.delete(get_pack_object(pack))
