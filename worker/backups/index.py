"""The index of a repository: in which pack each chunk is.

It is a copy of the target's index objects in an SQLite file, so that its memory does not grow with the repository. The
file is a cache: several processes may share it, and it may be deleted.
"""

import sqlite3
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

SCHEMA = """
CREATE TABLE IF NOT EXISTS packs (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, is_garbage INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS chunks (
    name BLOB NOT NULL, pack INTEGER NOT NULL REFERENCES packs ON DELETE CASCADE, start INTEGER NOT NULL,
    length INTEGER NOT NULL, is_damaged INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (name, pack)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS chunks_pack ON chunks (pack);
CREATE TABLE IF NOT EXISTS locks (pack INTEGER PRIMARY KEY REFERENCES packs ON DELETE CASCADE, until REAL NOT NULL);
"""

CHUNK_QUERY = """
SELECT packs.name, start, length FROM chunks JOIN packs ON packs.number = pack
WHERE chunks.name = ? AND NOT is_damaged ORDER BY is_garbage, packs.name LIMIT 1
"""
"""Where a chunk is. All processes prefer the same of several places, so none deletes the place that another chose."""

HAS_QUERY = """
SELECT 1 FROM chunks JOIN packs ON packs.number = pack WHERE chunks.name = ? AND NOT is_damaged AND NOT is_garbage
"""

CACHE_KIBIBYTES = 8192


@dataclass(frozen=True)
class Location:
    pack: str
    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length


class ChunkIndex:
    """Safe to use from several threads."""

    def __init__(self, path: Path | None = None) -> None:
        """Open the cache at `path`; without one the index is a temporary file."""
        self.lock = threading.RLock()
        self.db = sqlite3.connect(path or "", timeout=60, isolation_level=None, check_same_thread=False)
        self.db.execute("PRAGMA foreign_keys = ON")
        self.db.execute("PRAGMA synchronous = OFF")
        self.db.execute(f"PRAGMA cache_size = -{CACHE_KIBIBYTES}")
        self.db.executescript(SCHEMA)

    def close(self) -> None:
        self.db.close()

    def rows(self, query: str, *values: object) -> list[tuple]:
        with self.lock:
            return self.db.execute(query, values).fetchall()

    def list_packs(self) -> set[str]:
        return {name for (name,) in self.rows("SELECT name FROM packs")}

    def add_pack(self, name: str, entries: Iterable[tuple[bytes, int, int]]) -> None:
        """Add a pack with its entries (name of the chunk, start, length)."""
        with self.lock, self.db:
            self.db.execute("BEGIN IMMEDIATE")
            if self.db.execute("INSERT OR IGNORE INTO packs (name, size) VALUES (?, 0)", (name,)).rowcount == 0:
                return
            (number,) = self.db.execute("SELECT number FROM packs WHERE name = ?", (name,)).fetchone()
            rows = [(chunk, number, start, length) for chunk, start, length in entries]
            self.db.executemany("INSERT OR IGNORE INTO chunks (name, pack, start, length) VALUES (?, ?, ?, ?)", rows)
            size = sum(length for _, _, _, length in rows)
            self.db.execute("UPDATE packs SET size = ? WHERE number = ?", (size, number))

    def remove_packs(self, names: Iterable[str]) -> None:
        with self.lock, self.db:
            self.db.executemany("DELETE FROM packs WHERE name = ?", [(name,) for name in names])

    def set_garbage(self, names: Iterable[str]) -> None:
        """Set which packs are going to be deleted."""
        with self.lock, self.db:
            self.db.execute("BEGIN IMMEDIATE")
            self.db.execute("UPDATE packs SET is_garbage = 0 WHERE is_garbage")
            self.db.executemany("UPDATE packs SET is_garbage = 1 WHERE name = ?", [(name,) for name in names])

    def set_damaged(self, places: Iterable[tuple[str, bytes]]) -> None:
        """Record places (pack, chunk) where a chunk cannot be read."""
        statement = (
            "UPDATE chunks SET is_damaged = 1 WHERE pack = (SELECT number FROM packs WHERE name = ?) AND name = ?"
        )
        with self.lock, self.db:
            self.db.executemany(statement, list(places))

    def find(self, name: bytes) -> Location | None:
        for row in self.rows(CHUNK_QUERY, name):
            return Location(*row)
        return None

    def has(self, name: bytes) -> bool:
        """Return whether the chunk is stored where it can be relied on."""
        return bool(self.rows(HAS_QUERY, name))

    # --- chunks that points use

    def clear_live(self) -> None:
        with self.lock:
            self.db.execute("DROP TABLE IF EXISTS temp.live")
            self.db.execute("CREATE TEMP TABLE live (name BLOB PRIMARY KEY, label TEXT) WITHOUT ROWID")

    def add_live(self, names: Iterable[bytes], label: str | None = None) -> None:
        """Add chunks that points use. Those that are there already keep their label."""
        with self.lock:
            self.db.execute("BEGIN")
            self.db.executemany("INSERT OR IGNORE INTO live VALUES (?, ?)", [(name, label) for name in names])
            self.db.execute("COMMIT")

    def add_all_live(self) -> None:
        """Record that all chunks are used that are not known to be damaged, for when it is not known what is used."""
        with self.lock:
            self.db.execute("INSERT OR IGNORE INTO live SELECT name, NULL FROM chunks WHERE NOT is_damaged")

    def is_live(self, name: bytes) -> bool:
        return bool(self.rows("SELECT 1 FROM live WHERE name = ?", name))

    def locate_live(self) -> None:
        """Choose the place of each live chunk, for the queries below."""
        query = CHUNK_QUERY.replace("packs.name, start, length", "number").replace("?", "live.name")
        with self.lock:
            self.db.execute("DROP TABLE IF EXISTS temp.places")
            self.db.execute(f"CREATE TEMP TABLE places AS SELECT name, ({query}) AS pack FROM live")

    def list_pack_usage(self) -> Iterator[tuple[str, int, int, bool]]:
        """Yield for each pack its name, size, bytes in use and whether it is going to be deleted."""
        query = """SELECT packs.name, size, coalesce(sum(length), 0), is_garbage FROM packs
            LEFT JOIN places ON places.pack = number
            LEFT JOIN chunks ON chunks.pack = number AND chunks.name = places.name GROUP BY number"""
        for name, size, used, is_garbage in self.rows(query):
            yield name, size, used, bool(is_garbage)

    def sum_live_by_label(self) -> dict[str, int]:
        """Return the bytes of the live chunks of each label."""
        query = """SELECT label, sum(length) FROM live JOIN places USING (name)
            JOIN chunks ON chunks.name = live.name AND chunks.pack = places.pack
            WHERE label IS NOT NULL GROUP BY label"""
        return {label: size for label, size in self.rows(query)}

    def list_live_of_pack(self, pack: str) -> list[bytes]:
        query = "SELECT places.name FROM places JOIN packs ON number = pack WHERE packs.name = ?"
        return [name for (name,) in self.rows(query, pack)]

    def list_live_packs(self, locked_until: float) -> list[str]:
        """Return the packs with live chunks that are not known to be locked until that time."""
        query = """SELECT DISTINCT packs.name FROM places JOIN packs ON number = places.pack
            LEFT JOIN locks ON locks.pack = number WHERE coalesce(until, 0) < ?"""
        return [name for (name,) in self.rows(query, locked_until)]

    def set_lock(self, pack: str, until: float) -> None:
        """Record until when the storage keeps the pack."""
        statement = "INSERT OR REPLACE INTO locks SELECT number, ? FROM packs WHERE name = ?"
        with self.lock, self.db:
            self.db.execute(statement, (until, pack))

    def count_live(self) -> int:
        return self.rows("SELECT count(*) FROM live")[0][0]

    def sample_live(self, count: int) -> Iterator[bytes]:
        """Yield that many live chunks, chosen at random, in the order of their packs."""
        with self.lock:
            self.db.execute("DROP TABLE IF EXISTS temp.sample")
            statement = "CREATE TEMP TABLE sample AS SELECT name, pack FROM places ORDER BY random() LIMIT ?"
            self.db.execute(statement, (count,))
        query = """SELECT sample.name FROM sample LEFT JOIN chunks USING (name, pack)
            WHERE sample.rowid > ? AND sample.rowid <= ? ORDER BY sample.pack, start"""
        for first in range(0, count, 4096):
            yield from (name for (name,) in self.rows(query, first, first + 4096))
