"""Moving a machine from one simulated node to another. As with real nodes, at every moment at least one node has it."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Self

import orjson

from panel.core.messages import message
from worker.nodes.base import Disk, Machine, NotOnNode, Power, Progress, Refused
from worker.nodes.simulated.storage import Storage, report_in_tenths

MIGRATED_COLUMNS = ("ran", "since", "boots", "booted_from", "guest", "agent", "heeds_shutdown")


class Migration(Storage):
    def migrate(self, machine: Machine, target: Self, progress: Progress | None = None) -> None:
        if target is self:
            raise Refused(message("The machine is on that hypervisor already."), f"machine {machine.id}")
        with self.state.transaction() as db:
            row = dict(self._get_machine(db, machine.id))
            self._ensure_no_saved_state(db, machine.id)
            query_template = "SELECT * FROM {} WHERE machine_id = ?"
            passwords = [tuple(record) for record in db.execute(query_template.format("passwords"), (machine.id,))]
            states = [tuple(record) for record in db.execute(query_template.format("firmware_states"), (machine.id,))]
            keys = [record["line"] for record in db.execute(query_template.format("keys"), (machine.id,))]
        self._report_progress(machine, progress)
        target._receive(machine, row, passwords, keys, states)
        self.delete(machine.id)
        target._take_over(machine, row)

    def copy_media(self, medium: Disk, target: Self, target_disk: Disk) -> None:
        query = "SELECT kind, content FROM disks WHERE pool = ? AND name = ?"
        rows = self.state.rows(query, medium.pool, medium.name)
        if not rows:
            raise NotOnNode(message("The medium is not on the hypervisor."), f"{medium.name} in pool {medium.pool}")
        with target.state.transaction() as db:
            target._store(db, target_disk, rows[0]["kind"], content=rows[0]["content"])

    def clean_up_target(self, machine_id: str, disks: Iterable[tuple[str, str]], name: str = "") -> None:
        with self.state.transaction() as db:
            if db.execute("SELECT 1 FROM machines WHERE id = ?", (machine_id,)).fetchone():
                return
            for pool, disk in disks:
                db.execute("DELETE FROM disks WHERE pool = ? AND name = ?", (pool, disk))

    def _report_progress(self, machine: Machine, progress: Progress | None) -> None:
        total = sum(disk.size for disk in machine.disks) + machine.memory_mb * 1024**2
        report_in_tenths(progress, total)

    def _receive(
        self,
        machine: Machine,
        row: dict[str, Any],
        passwords: list[tuple[str, ...]],
        keys: list[str],
        states: list[tuple[Any, ...]],
    ) -> None:
        """Create the machine here, paused if it was on; `_take_over` sets its power state."""
        with self.state.transaction() as db:
            if db.execute("SELECT 1 FROM machines WHERE name = ? AND id <> ?", (machine.name, machine.id)).fetchone():
                raise Refused(message("Another machine on the hypervisor has that name."), f"name {machine.name}")
            self._ensure_disks(db, asdict(machine))
            is_on = row["power"] != Power.off
            if is_on:
                self._ensure_memory(db, asdict(machine))
            definition = orjson.dumps(machine)
            statement = "INSERT OR REPLACE INTO machines (id, name, definition) VALUES (?, ?, ?)"
            db.execute(statement, (machine.id, machine.name, definition))
            live_columns = {"live": definition, "memory": machine.memory_mb, "power": "paused"} if is_on else {}
            self._change(db, machine.id, **{name: row[name] for name in MIGRATED_COLUMNS}, **live_columns)
            for line in keys:
                db.execute("INSERT OR IGNORE INTO keys (machine_id, line) VALUES (?, ?)", (machine.id, line))
            for record in passwords:
                db.execute("INSERT OR REPLACE INTO passwords VALUES (?, ?, ?)", record)
            db.executemany("INSERT OR REPLACE INTO firmware_states VALUES (?, ?, ?)", states)

    def _take_over(self, machine: Machine, row: dict[str, Any]) -> None:
        with self.state.transaction() as db:
            self._change(db, machine.id, power=row["power"])
