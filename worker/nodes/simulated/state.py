"""The state of a simulated node: one SQLite file that every process opens for itself.

Triggers write the events, so a watcher gets every change of a power state.
"""

import contextlib
import os
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from panel.core.messages import message
from worker.nodes.base import Unreachable
from worker.nodes.simulated.backups import BACKUP_SCHEMA
from worker.nodes.simulated.firmware_states import FIRMWARE_STATE_SCHEMA
from worker.nodes.simulated.importing import IMPORT_SCHEMA
from worker.nodes.simulated.overlays import OVERLAY_SCHEMA
from worker.nodes.simulated.sandbox_networks import SANDBOX_NETWORK_SCHEMA
from worker.nodes.simulated.saved_states import SAVED_STATE_SCHEMA
from worker.nodes.simulated.snapshots import SNAPSHOT_SCHEMA

SCHEMA_SQL = """
CREATE TABLE pools (name TEXT PRIMARY KEY, path TEXT NOT NULL);
CREATE TABLE disks (
    pool TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, size INTEGER NOT NULL, allocated INTEGER NOT NULL,
    parent TEXT, content BLOB, PRIMARY KEY (pool, name)
);
CREATE INDEX disks_allocated ON disks (allocated);
CREATE TABLE machines (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, definition BLOB NOT NULL, power TEXT NOT NULL DEFAULT 'off',
    live BLOB, memory INTEGER NOT NULL DEFAULT 0, ran REAL NOT NULL DEFAULT 0, since REAL,
    boots INTEGER NOT NULL DEFAULT 0, booted_from REAL NOT NULL DEFAULT 0, guest INTEGER NOT NULL DEFAULT 0,
    agent INTEGER NOT NULL DEFAULT 1, heeds_shutdown INTEGER NOT NULL DEFAULT 1
);
CREATE INDEX machines_memory ON machines (memory) WHERE memory > 0;
CREATE TABLE passwords (machine_id TEXT, user TEXT, hash TEXT, PRIMARY KEY (machine_id, user));
CREATE TABLE keys (id INTEGER PRIMARY KEY, machine_id TEXT NOT NULL, line TEXT NOT NULL, UNIQUE (machine_id, line));
CREATE TABLE faults (
    id INTEGER PRIMARY KEY, operation TEXT NOT NULL, kind TEXT NOT NULL, remaining INTEGER, seconds REAL NOT NULL
);
CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, machine_id TEXT NOT NULL, power TEXT);
CREATE TRIGGER power_changed AFTER UPDATE OF power ON machines WHEN old.power <> new.power
    BEGIN INSERT INTO events (machine_id, power) VALUES (new.id, new.power); END;
CREATE TRIGGER removed AFTER DELETE ON machines
    BEGIN INSERT INTO events (machine_id, power) VALUES (old.id, NULL);
          DELETE FROM passwords WHERE machine_id = old.id;
          DELETE FROM keys WHERE machine_id = old.id; END;
CREATE TRIGGER old_events AFTER INSERT ON events
    BEGIN DELETE FROM events WHERE id <= new.id - 10000; END;
"""


class State:
    """Short reads and transactions, one at a time in a process; SQLite isolates the processes from each other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.RLock()
        self.connection: sqlite3.Connection | None = None
        open_states.add(self)

    def rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        with self.lock, translate_errors(self.path):
            return self.connect().execute(sql, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit the whole block or nothing. Begins with the write lock, so what the block reads does not change
        meanwhile."""
        with self.lock, translate_errors(self.path), self.connect() as db:
            db.execute("BEGIN IMMEDIATE")
            yield db

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Read several times from one state of the database."""
        with self.lock, translate_errors(self.path), self.connect() as db:
            db.execute("BEGIN")
            yield db

    def connect(self) -> sqlite3.Connection:
        if self.connection is None:
            if not self.path.exists():
                create_database(self.path)
            db = sqlite3.connect(self.path, timeout=10, isolation_level=None, check_same_thread=False)
            db.row_factory = sqlite3.Row
            db.execute("PRAGMA synchronous = NORMAL")
            schemas = OVERLAY_SCHEMA, SNAPSHOT_SCHEMA, IMPORT_SCHEMA, SAVED_STATE_SCHEMA, SANDBOX_NETWORK_SCHEMA
            db.executescript(BACKUP_SCHEMA + FIRMWARE_STATE_SCHEMA + "".join(schemas))
            self.connection = db
        return self.connection

    def close(self) -> None:
        with self.lock:
            if self.connection is not None:
                self.connection.close()
                self.connection = None


open_states: "weakref.WeakSet[State]" = weakref.WeakSet()
locked_states: list[State] = []
fork_lock = threading.Lock()


def create_database(path: Path) -> None:
    """Create the file complete or not at all, whichever of several processes is first. Only its owner may read it:
    seeds contain passwords."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent)
    os.close(handle)
    db = sqlite3.connect(draft)
    db.execute("PRAGMA journal_mode = WAL")
    db.executescript(SCHEMA_SQL)
    db.close()
    with contextlib.suppress(FileExistsError):
        os.link(draft, path)
    os.unlink(draft)


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Raise `Unreachable` when the file stays locked or cannot be opened."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:
            raise
        raise Unreachable(message("The hypervisor does not answer."), f"{path}: {error}") from error


def close_before_fork() -> None:
    """Close every file before a fork: SQLite connections must not be carried across one, not even to be closed."""
    fork_lock.acquire()
    for state in list(open_states):
        state.lock.acquire()
        state.close()
        locked_states.append(state)


def unlock_after_fork() -> None:
    while locked_states:
        locked_states.pop().lock.release()
    fork_lock.release()


os.register_at_fork(before=close_before_fork, after_in_parent=unlock_after_fork, after_in_child=unlock_after_fork)
