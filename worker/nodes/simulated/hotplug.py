"""Disks of a simulated node that come and go, also while the machine runs."""

from dataclasses import asdict

import orjson

from worker.nodes.base import Power


class Hotplug:
    def attach_disk(self, machine_id, disk):
        place = disk.pool, disk.name
        self._change_disks(machine_id, *place, lambda rest, found: rest + (found or [asdict(disk)]))

    def detach_disk(self, machine_id, pool, name):
        self._change_disks(machine_id, pool, name, lambda rest, found: rest)

    def _change_disks(self, machine_id, pool, name, change):
        """`change` makes the new list of disks from the others and, in a list, the one that is meant."""
        with self.state.transaction() as db:
            row = self._get_machine(db, machine_id)
            self._ensure_disks(db, {"disks": [{"pool": pool, "name": name}], "media": {}})
            for column in ("definition", "live") if row["power"] != Power.off else ("definition",):
                machine = orjson.loads(row[column])
                rest, found = [], []
                for each in machine["disks"]:
                    (found if (each["pool"], each["name"]) == (pool, name) else rest).append(each)
                machine["disks"] = change(rest, found)
                self._change(db, machine_id, **{column: orjson.dumps(machine)})
