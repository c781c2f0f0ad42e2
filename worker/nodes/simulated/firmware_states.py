"""Variables of firmware and states of TPMs of a simulated node: random bytes that a machine gets at its first start."""

import os
import sqlite3

import orjson

from panel.core.messages import message
from worker.nodes.base import Power, Refused
from worker.nodes.simulated.machines import Machines

FIRMWARE_STATE_SCHEMA = """
CREATE TABLE IF NOT EXISTS firmware_states (
    machine_id TEXT NOT NULL, name TEXT NOT NULL, content BLOB NOT NULL, PRIMARY KEY (machine_id, name)
);
CREATE TRIGGER IF NOT EXISTS firmware_states_gone AFTER DELETE ON machines
    BEGIN DELETE FROM firmware_states WHERE machine_id = old.id; END;
"""
STATE_BYTES = 64
DEVICES = {"nvram": "secure_boot", "tpm": "tpm"}
"""Part of the state → the setting of a machine that has it."""


class FirmwareStates(Machines):
    def read_firmware_state(self, machine_id: str) -> dict[str, bytes]:
        with self.state.snapshot() as db:
            definition = orjson.loads(self._get_machine(db, machine_id)["definition"])
            rows = db.execute("SELECT name, content FROM firmware_states WHERE machine_id = ?", (machine_id,))
            return {name: bytes(content) for name, content in rows if definition[DEVICES[name]]}

    def write_firmware_state(self, machine_id: str, state: dict[str, bytes]) -> None:
        with self.state.transaction() as db:
            if self._get_machine(db, machine_id)["power"] != Power.off:
                raise Refused(message("The machine is on."), f"machine {machine_id}")
            rows = [(machine_id, name, content) for name, content in state.items()]
            db.executemany("INSERT OR REPLACE INTO firmware_states VALUES (?, ?, ?)", rows)

    def _start(self, db: sqlite3.Connection, machine_id: str) -> None:
        super()._start(db, machine_id)
        definition = orjson.loads(self._get_machine(db, machine_id)["definition"])
        for name, setting in DEVICES.items():
            if definition[setting]:
                values = machine_id, name, os.urandom(STATE_BYTES)
                db.execute("INSERT OR IGNORE INTO firmware_states VALUES (?, ?, ?)", values)
