"""Attaching and detaching disks of a simulated node, also while the machine runs."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import orjson

from worker.nodes.base import Disk, Power
from worker.nodes.simulated.machines import Machines


class Hotplug(Machines):
    def attach_disk(self, machine_id: str, disk: Disk) -> None:
        key = disk.pool, disk.name
        self._change_disks(machine_id, *key, lambda others, existing: others + (existing or [asdict(disk)]))

    def detach_disk(self, machine_id: str, pool: str, name: str) -> None:
        self._change_disks(machine_id, pool, name, lambda others, existing: others)

    def _change_disks(
        self,
        machine_id: str,
        pool: str,
        name: str,
        change: Callable[[list[dict[str, Any]], list[dict[str, Any]]], list[dict[str, Any]]],
    ) -> None:
        """Change the list of disks. `change(others, existing)` returns the new list; `existing` has the disk, or is
        empty."""
        with self.state.transaction() as db:
            row = self._get_machine(db, machine_id)
            self._ensure_no_saved_state(db, machine_id)
            self._ensure_disks(db, {"disks": [{"pool": pool, "name": name}], "media": {}})
            for column in ("definition", "live") if row["power"] != Power.off else ("definition",):
                machine = orjson.loads(row[column])
                others: list[dict[str, Any]] = []
                existing: list[dict[str, Any]] = []
                for entry in machine["disks"]:
                    (existing if (entry["pool"], entry["name"]) == (pool, name) else others).append(entry)
                machine["disks"] = change(others, existing)
                self._change(db, machine_id, **{column: orjson.dumps(machine)})
