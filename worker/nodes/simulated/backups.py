"""Backups of a simulated node. A disk has deterministic content: the files that its guest wrote, each in the block that
its path determines, and a first block that shows whether the disk has a system."""

import json
import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterable
from typing import Any

import orjson

from panel.core.messages import message
from worker.nodes.base import (
    BackupJob,
    BackupReader,
    Disk,
    DiskContent,
    Extent,
    NotOnNode,
    Power,
    Progress,
    Refused,
    make_overlay_name,
)
from worker.nodes.simulated.machines import AGENT_ANSWERS
from worker.nodes.simulated.storage import Storage

BACKUP_SCHEMA = """
CREATE TABLE IF NOT EXISTS checkpoints (
    machine_id TEXT NOT NULL, name TEXT NOT NULL, pool TEXT NOT NULL, disk TEXT NOT NULL, blocks BLOB NOT NULL,
    is_broken INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (machine_id, name, pool, disk)
);
CREATE TABLE IF NOT EXISTS backups (
    pool TEXT NOT NULL, disk TEXT NOT NULL, size INTEGER NOT NULL, blocks BLOB NOT NULL, since BLOB,
    PRIMARY KEY (pool, disk)
);
CREATE TRIGGER IF NOT EXISTS checkpoints_gone AFTER DELETE ON machines
    BEGIN DELETE FROM checkpoints WHERE machine_id = old.id; END;
CREATE TRIGGER IF NOT EXISTS disk_checkpoints_gone AFTER DELETE ON disks
    BEGIN DELETE FROM checkpoints WHERE pool = old.pool AND disk = old.name;
          DELETE FROM backups WHERE pool = old.pool AND disk = old.name; END;
"""

BLOCK_BYTES = 64 * 1024

Blocks = dict[str, str]
"""Offset → text of a block that is not zero."""


class Backups(Storage):
    def begin_backup(
        self,
        machine_id: str | None,
        disks: Iterable[Disk],
        checkpoint: str,
        previous: str | None = None,
        progress: Progress | None = None,
        bytes_per_second: int = 0,
        fully_read: Collection[str] = (),
    ) -> BackupJob:
        reasons: dict[str, str | None] = {}
        with self.state.transaction() as db:
            row = self._get_machine(db, machine_id) if machine_id else None
            runs = row is not None and row["power"] != Power.off
            for disk in disks:
                size, blocks = self._read_blocks(db, disk)
                since, reasons[disk.name] = None, "stopped"
                if runs:
                    since, reasons[disk.name] = None, "requested"
                    if disk.name not in fully_read:
                        since, reasons[disk.name] = find_checkpoint(db, machine_id, disk, previous)
                    values = (machine_id, checkpoint, disk.pool, disk.name, orjson.dumps(blocks))
                    db.execute("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?, 0)", values)
                record = (disk.pool, disk.name, size, orjson.dumps(blocks), since)
                db.execute("INSERT OR REPLACE INTO backups VALUES (?, ?, ?, ?, ?)", record)
            consistency = "stopped"
            if row is not None and runs:
                is_frozen = self._is_booted(row) and row["agent"] == AGENT_ANSWERS
                consistency = "filesystem" if is_frozen else "crash"
        return BackupJob(consistency, checkpoint if runs else None, reasons)

    def open_backup(self, machine_id: str | None, disk: Disk) -> BackupReader:
        query = "SELECT size, blocks, since FROM backups WHERE pool = ? AND disk = ?"
        for size, blocks, since in self.state.rows(query, disk.pool, disk.name):
            return SimulatedReader(self, size, orjson.loads(blocks), since and orjson.loads(since))
        raise Refused(message("There is no backup of this disk."), f"disk {disk.name} in pool {disk.pool}")

    def end_backup(self, machine_id: str | None, disks: Iterable[tuple[str, str]]) -> None:
        with self.state.transaction() as db:
            db.executemany("DELETE FROM backups WHERE pool = ? AND disk = ?", list(disks))

    def delete_checkpoints(self, machine_id: str, retained: Iterable[str] = ()) -> None:
        names = orjson.dumps(list(retained)).decode()
        with self.state.transaction() as db:
            statement = "DELETE FROM checkpoints WHERE machine_id = ? AND name NOT IN (SELECT value FROM json_each(?))"
            db.execute(statement, (machine_id, names))

    def write_disk(self, disk: Disk, content: DiskContent, progress: Progress | None = None) -> None:
        self._delete_stored(disk.pool, disk.name)
        files: dict[str, str] = {}
        for extent, data in zip(content.list_extents(), content.read(), strict=True):
            for start in range(0, len(data), BLOCK_BYTES):
                if text := data[start : start + BLOCK_BYTES].rstrip(b"\0"):
                    files |= orjson.loads(text)
            if progress:
                progress(extent.offset + extent.length, disk.size)
        has_system = files.pop("", None) is not None
        with self.state.transaction() as db:
            self._store(db, disk, "system disk" if has_system else "disk")
            rows = [(disk.pool, disk.name, path, text) for path, text in files.items()]
            db.executemany("INSERT INTO written VALUES (?, ?, ?, ?)", rows)

    def read_backup(self) -> None:
        """Meet the faults of a read. The content is in the reader."""

    def _read_blocks(self, db: sqlite3.Connection, disk: Disk) -> tuple[int, Blocks]:
        row = db.execute("SELECT * FROM disks WHERE pool = ? AND name = ?", (disk.pool, disk.name)).fetchone()
        if row is None:
            raise NotOnNode(message("The disk is not on the hypervisor."), f"disk {disk.name} in pool {disk.pool}")
        blocks: dict[int, dict[str, str]] = {}
        if row["parent"] or row["kind"] == "system disk":
            blocks[0] = {"": "system"}
        query = "SELECT path, text FROM written WHERE pool = ? AND disk IN (?, ?) ORDER BY length(disk)"
        for path, text in db.execute(query, (disk.pool, disk.name, make_overlay_name(disk.name))):
            block = 1 + zlib.crc32(path.encode()) % (row["size"] // BLOCK_BYTES - 1)
            blocks.setdefault(block, {})[path] = text
        return row["size"], {str(number * BLOCK_BYTES): json.dumps(files) for number, files in sorted(blocks.items())}


def find_checkpoint(
    db: sqlite3.Connection, machine_id: str | None, disk: Disk, name: str | None
) -> tuple[bytes | None, str | None]:
    """Return the blocks at the checkpoint, or the reason for a full read."""
    query = "SELECT blocks, is_broken FROM checkpoints WHERE machine_id = ? AND name = ? AND pool = ? AND disk = ?"
    row = db.execute(query, (machine_id, name, disk.pool, disk.name)).fetchone()
    if row is None:
        return None, "no_checkpoint" if name else "requested"
    return (None, "broken_bitmap") if row["is_broken"] else (row["blocks"], None)


class SimulatedReader(BackupReader):
    """Meets the faults of `open_backup` with each read."""

    def __init__(self, node: Any, size: int, blocks: Blocks, since: Blocks | None) -> None:
        self.node, self.size, self.blocks = node, size, blocks
        changed = {offset for offset in blocks | (since or {}) if blocks.get(offset) != (since or {}).get(offset)}
        self.changed = sorted(map(int, changed))

    def list_extents(self, offset: int, length: int) -> list[Extent]:
        return [Extent(block, BLOCK_BYTES) for block in self.changed if offset <= block < offset + length]

    def read(self, extents: Iterable[Extent], write: Callable[[int, bytes | bytearray], None]) -> None:
        for extent in extents:
            self.node.read_backup()
            for offset in sorted(map(int, self.blocks)):
                if extent.offset <= offset < extent.offset + extent.length:
                    write(offset, self.blocks[str(offset)].encode().ljust(BLOCK_BYTES, b"\0"))

    def close(self) -> None:
        pass
