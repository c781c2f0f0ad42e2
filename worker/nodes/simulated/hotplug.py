"""Attaching and detaching disks of a simulated node, also while the machine runs."""

from dataclasses import asdict

import orjson

from worker.nodes.base import Power


class Hotplug:
    def attach_disk(self, machine_id, disk):
        key = disk.pool, disk.name
        self._change_disks(machine_id, *key, lambda others, existing: others + (existing or [asdict(disk)]))

    def detach_disk(self, machine_id, pool, name):
        self._change_disks(machine_id, pool, name, lambda others, existing: others)

    def _change_disks(self, machine_id, pool, name, change):
        """Change the list of disks. `change(others, existing)` returns the new list; `existing` has the disk, or is
        empty."""
        with self.state.transaction() as db:
            row = self._get_machine(db, machine_id)
            self._ensure_disks(db, {"disks": [{"pool": pool, "name": name}], "media": {}})
            for column in ("definition", "live") if row["power"] != Power.off else ("definition",):
                machine = orjson.loads(row[column])
                others, existing = [], []
                for entry in machine["disks"]:
                    (existing if (entry["pool"], entry["name"]) == (pool, name) else others).append(entry)
                machine["disks"] = change(others, existing)
                self._change(db, machine_id, **{column: orjson.dumps(machine)})
