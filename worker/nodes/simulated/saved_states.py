"""Saved states of a simulated node: what a machine was when it was saved, so that it continues as if never stopped."""

import sqlite3

import orjson

from panel.core import clock
from panel.core.messages import message
from worker.nodes.base import Power, Refused
from worker.nodes.simulated.machines import Machines, compute_uptime

SAVED_STATE_SCHEMA = """
CREATE TABLE IF NOT EXISTS saved_states (
    machine_id TEXT PRIMARY KEY, live BLOB NOT NULL, ran REAL NOT NULL, booted_from REAL NOT NULL,
    guest INTEGER NOT NULL
);
CREATE TRIGGER IF NOT EXISTS saved_state_gone AFTER DELETE ON machines
    BEGIN DELETE FROM saved_states WHERE machine_id = old.id; END;
"""


class SavedStates(Machines):
    def save(self, machine_id: str) -> None:
        with self.state.transaction() as db:
            row = self._get_machine(db, machine_id)
            if row["power"] == Power.off:
                if self._find_saved_state(db, machine_id) is None:
                    raise Refused(message("The machine is off."), f"machine {machine_id}")
                return
            ran = compute_uptime(row, clock.now().timestamp())
            record = (machine_id, row["live"], ran, row["booted_from"], row["guest"])
            db.execute("INSERT OR REPLACE INTO saved_states VALUES (?, ?, ?, ?, ?)", record)
            self._turn_off(db, machine_id)

    def has_saved_state(self, machine_id: str) -> bool:
        with self.state.snapshot() as db:
            self._get_machine(db, machine_id)
            return self._find_saved_state(db, machine_id) is not None

    def delete_saved_state(self, machine_id: str) -> None:
        with self.state.transaction() as db:
            self._get_machine(db, machine_id)
            self._delete_saved_state(db, machine_id)

    def _start(self, db: sqlite3.Connection, machine_id: str) -> None:
        saved = self._find_saved_state(db, machine_id)
        if saved is None or self._get_machine(db, machine_id)["power"] != Power.off:
            super()._start(db, machine_id)
            return
        machine = orjson.loads(saved["live"])
        self._ensure_disks(db, machine)
        self._ensure_memory(db, machine)
        columns = {name: saved[name] for name in ("live", "ran", "booted_from", "guest")}
        since = clock.now().timestamp()
        self._change(db, machine_id, power="on", since=since, memory=machine["memory_mb"], **columns)
        self._delete_saved_state(db, machine_id)
