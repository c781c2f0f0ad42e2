"""Overlays of a simulated node, and the files that its guests write: enough to show what a disk contains."""

import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from panel.core.messages import message
from worker.nodes.base import Disk, Power, Progress, Refused, make_overlay_name
from worker.nodes.simulated.storage import Storage

if TYPE_CHECKING:
    from worker.nodes.simulated.state import State

OVERLAY_SCHEMA = """
CREATE TABLE IF NOT EXISTS written (
    pool TEXT NOT NULL, disk TEXT NOT NULL, path TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (pool, disk, path)
);
CREATE TRIGGER IF NOT EXISTS disk_gone AFTER DELETE ON disks
    BEGIN DELETE FROM written WHERE pool = old.pool AND disk = old.name; END;
"""


class Overlays(Storage):
    def create_overlays(self, machine_id: str, disks: Iterable[Disk]) -> None:
        with self.state.transaction() as db:
            row = self._get_machine(db, machine_id)
            if row["power"] == Power.off:
                raise Refused(message("The machine is off."), f"machine {machine_id}")
            for disk in disks:
                self._ensure_disks(db, {"disks": [{"pool": disk.pool, "name": disk.name}], "media": {}})
                statement = "INSERT OR IGNORE INTO disks VALUES (?, ?, 'overlay', ?, 0, NULL, NULL)"
                db.execute(statement, (disk.pool, make_overlay_name(disk.name), disk.size))

    def thaw_guest(self, machine_id: str) -> None:
        with self.state.transaction() as db:
            self._get_machine(db, machine_id)

    def commit_overlay(self, machine_id: str, pool: str, name: str, progress: Progress | None = None) -> None:
        with self.state.transaction() as db:
            if self._find_overlay(db, pool, name):
                self._get_machine(db, machine_id)
                self._ensure_no_saved_state(db, machine_id)
                copy_statement = (
                    "INSERT OR REPLACE INTO written SELECT pool, ?, path, text FROM written WHERE pool = ? AND disk = ?"
                )
                db.execute(copy_statement, (name, pool, make_overlay_name(name)))
                db.execute("DELETE FROM disks WHERE pool = ? AND name = ?", (pool, make_overlay_name(name)))

    def discard_overlay(self, machine_id: str, pool: str, name: str) -> None:
        with self.state.transaction() as db:
            if self._find_overlay(db, pool, name):
                if self._get_machine(db, machine_id)["power"] != Power.off:
                    raise Refused(message("The machine is on."), f"machine {machine_id}")
                self._delete_saved_state(db, machine_id)
                db.execute("DELETE FROM disks WHERE pool = ? AND name = ?", (pool, make_overlay_name(name)))

    def _find_overlay(self, db: sqlite3.Connection, pool: str, name: str) -> sqlite3.Row | None:
        self._get_pool_path(pool)
        query = "SELECT 1 FROM disks WHERE pool = ? AND name = ? AND kind = 'overlay'"
        return db.execute(query, (pool, make_overlay_name(name))).fetchone()


def list_disk_layers(state: "State", disk: dict[str, Any]) -> list[str]:
    """Return the volumes from which a guest reads a disk, the topmost last."""
    return [disk["name"], make_overlay_name(disk["name"])]


def write_file(state: "State", disk: dict[str, Any], path: str, text: str) -> None:
    """Write a file of a guest, into the overlay if there is one."""
    with state.transaction() as db:
        query = "SELECT name FROM disks WHERE pool = ? AND name IN (?, ?) ORDER BY length(name) DESC LIMIT 1"
        (top,) = db.execute(query, (disk["pool"], *list_disk_layers(state, disk))).fetchone()
        db.execute("INSERT OR REPLACE INTO written VALUES (?, ?, ?, ?)", (disk["pool"], top, path, text))


def read_files(state: "State", disk: dict[str, Any]) -> dict[str, str]:
    """Return the files on the disk: path → text."""
    query = "SELECT path, text FROM written WHERE pool = ? AND disk IN (?, ?) ORDER BY length(disk)"
    return dict(map(tuple, state.rows(query, disk["pool"], *list_disk_layers(state, disk))))
