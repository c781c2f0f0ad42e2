"""Unmanaged machines of a simulated node, and importing them."""

import sqlite3
from typing import Any

import orjson

from panel.core.messages import message
from worker.nodes.base import DiskDescription, Machine, MachineDescription, Nic, Power, Refused
from worker.nodes.simulated.machines import Machines

IMPORT_SCHEMA = """
CREATE TABLE IF NOT EXISTS before (machine_id TEXT PRIMARY KEY, name TEXT NOT NULL, definition BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS oddities (machine_id TEXT NOT NULL, device TEXT, sentence TEXT NOT NULL);
CREATE TRIGGER IF NOT EXISTS defined_anew AFTER UPDATE OF definition ON machines
    BEGIN DELETE FROM before WHERE machine_id = new.id; END;
CREATE TRIGGER IF NOT EXISTS gone AFTER DELETE ON machines
    BEGIN DELETE FROM before WHERE machine_id = old.id;
          DELETE FROM oddities WHERE machine_id = old.id; END;
"""


class Importing(Machines):
    def describe_machine(self, machine_id: str) -> MachineDescription:
        with self.state.snapshot() as db:
            row = self._get_machine(db, machine_id)
            oddities = db.execute(
                "SELECT device, sentence FROM oddities WHERE machine_id = ?", (machine_id,)
            ).fetchall()
            machine = orjson.loads(row["definition"])
            faults = {oddity["device"]: oddity["sentence"] for oddity in oddities if oddity["device"]}
            disks = [self._describe_disk(db, n, disk, faults) for n, disk in enumerate(machine["disks"])]
        return MachineDescription(
            id=machine_id,
            name=row["name"],
            power=Power(row["power"]),
            cpu_cores=machine["cpu_cores"],
            memory_mb=machine["memory_mb"],
            disks=tuple(disks),
            nics=tuple(Nic(nic["mac"], nic["network"]) for nic in machine["nics"]),
            tpm=machine["tpm"],
            secure_boot=machine["secure_boot"],
            faults=tuple(oddity["sentence"] for oddity in oddities if not oddity["device"]),
        )

    def import_machine(self, machine: Machine) -> None:
        with self.state.transaction() as db:
            row = self._get_machine(db, machine.id)
            if row["power"] != Power.off:
                raise Refused(message("The machine is on."), f"machine {machine.id}")
            stored = db.execute("SELECT * FROM before WHERE machine_id = ?", (machine.id,)).fetchone()
            self._put(db, machine)
            previous = tuple(stored) if stored else (machine.id, row["name"], row["definition"])
            db.execute("INSERT INTO before VALUES (?, ?, ?)", previous)

    def revert_import(self, machine_id: str) -> None:
        with self.state.transaction() as db:
            self._get_machine(db, machine_id)
            previous = db.execute("SELECT * FROM before WHERE machine_id = ?", (machine_id,)).fetchone()
            if previous:
                self._change(db, machine_id, name=previous["name"], definition=previous["definition"])

    def _describe_disk(
        self, db: sqlite3.Connection, number: int, disk: dict[str, Any], faults: dict[str, str]
    ) -> DiskDescription:
        device = f"vd{chr(ord('a') + number)}"
        query = "SELECT size FROM disks WHERE pool = ? AND name = ?"
        row = db.execute(query, (disk["pool"], disk["name"])).fetchone()
        return DiskDescription(device, disk["name"], disk["pool"], row["size"] if row else 0, faults.get(device))
