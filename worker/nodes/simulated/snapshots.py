"""Snapshots of a simulated node: copies of the files that guests have written."""

import sqlite3

import orjson

from panel.core.messages import message
from worker.nodes.base import NotOnNode, Power, Refused
from worker.nodes.simulated.machines import Machines

SNAPSHOT_SCHEMA = """
CREATE TABLE IF NOT EXISTS snapshots (
    machine_id TEXT NOT NULL, name TEXT NOT NULL, power TEXT NOT NULL, files BLOB NOT NULL,
    PRIMARY KEY (machine_id, name)
);
CREATE TRIGGER IF NOT EXISTS snapshots_gone AFTER DELETE ON machines
    BEGIN DELETE FROM snapshots WHERE machine_id = old.id; END;
"""


class Snapshots(Machines):
    def create_snapshot(self, machine_id: str, name: str, memory: bool = False) -> None:
        with self.state.transaction() as db:
            row = self._get_machine(db, machine_id)
            if orjson.loads(row["definition"]).get("secure_boot"):
                raise Refused(message("An instance with secure boot cannot have snapshots."), f"machine {machine_id}")
            files = [list(file) for disk in list_disk_keys(row) for file in db.execute(DISK_FILES_QUERY, disk)]
            statement = "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)"
            db.execute(statement, (machine_id, name, row["power"], orjson.dumps(files)))

    def revert_snapshot(self, machine_id: str, name: str, memory: bool = False) -> None:
        with self.state.transaction() as db:
            row = self._get_machine(db, machine_id)
            query = "SELECT power, files FROM snapshots WHERE machine_id = ? AND name = ?"
            snapshot = db.execute(query, (machine_id, name)).fetchone()
            if snapshot is None:
                raise NotOnNode(
                    message("The snapshot is not on the hypervisor."), f"snapshot {name} of machine {machine_id}"
                )
            self._turn_off(db, machine_id)
            self._delete_saved_state(db, machine_id)
            db.execute("DELETE FROM checkpoints WHERE machine_id = ?", (machine_id,))
            for disk in list_disk_keys(row):
                db.execute("DELETE FROM written WHERE pool = ? AND disk = ?", disk)
            db.executemany("INSERT INTO written VALUES (?, ?, ?, ?)", orjson.loads(snapshot["files"]))
            if memory and snapshot["power"] != Power.off:
                self._start(db, machine_id)

    def delete_snapshot(self, machine_id: str, name: str) -> None:
        with self.state.transaction() as db:
            db.execute("DELETE FROM snapshots WHERE machine_id = ? AND name = ?", (machine_id, name))


DISK_FILES_QUERY = "SELECT pool, disk, path, text FROM written WHERE pool = ? AND disk = ?"


def list_disk_keys(row: sqlite3.Row) -> list[tuple[str, str]]:
    return [(disk["pool"], disk["name"]) for disk in orjson.loads(row["definition"])["disks"]]
