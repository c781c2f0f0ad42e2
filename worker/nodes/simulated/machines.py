"""Machines of a simulated node: their definitions, their power state and the events for watchers."""

import sqlite3
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import orjson

from panel.core import clock
from panel.core.messages import message
from worker.nodes import png
from worker.nodes.base import (
    Endpoint,
    GiB,
    HostUsage,
    Machine,
    MachineEventCallback,
    MachineStatus,
    Nic,
    NoCapacity,
    NotOnNode,
    Power,
    Refused,
)
from worker.nodes.simulated.counters import compute_counters
from worker.nodes.simulated.stored_node import StoredNode
from worker.nodes.simulated.vnc import get_vnc_address

AGENT_ANSWERS, AGENT_HANGS = 1, 2
"""States of a machine's agent; 0 when it has none."""

SCREEN_SIZE, GRAY = (64, 40), 200
"""Of the picture that `screenshot` returns."""

HOST_SHARE, SECONDS_PER_YEAR = 0.02, 365 * 86400
"""The share of the processors and of the memory that the host itself uses."""

EVENT_POLL_INTERVAL_SECONDS = 0.25
"""Seconds between two polls of a watcher: other processes change the node too."""


class Machines(StoredNode):
    def machines(self) -> list[MachineStatus]:
        now = clock.now().timestamp()
        return [
            build_machine_status(row, now)
            for row in self.state.rows("SELECT id, name, power, live, ran, since FROM machines")
        ]

    def host_usage(self) -> HostUsage:
        """Return the sums of the running machines, and a little for the host itself."""
        uptime, running = clock.now().timestamp() % SECONDS_PER_YEAR, self.machines()
        return HostUsage(
            uptime * self.options.cores * HOST_SHARE + sum(machine.cpu_seconds for machine in running),
            uptime * self.options.cores,
            int(self.options.memory_gb * GiB * HOST_SHARE) + sum(machine.memory_used for machine in running),
        )

    def watch_events(self, event: MachineEventCallback, stop: Callable[[], bool]) -> None:
        last_id = self.state.rows("SELECT coalesce(max(id), 0) FROM events")[0][0]
        while not stop():
            for change in self.changes(last_id):
                last_id = change["id"]
                event(change["machine_id"], change["power"] and Power(change["power"]))
            time.sleep(EVENT_POLL_INTERVAL_SECONDS)

    def changes(self, last_id: int) -> list[sqlite3.Row]:
        return self.state.rows("SELECT id, machine_id, power FROM events WHERE id > ? ORDER BY id", last_id)

    def define(self, machine: Machine) -> None:
        with self.state.transaction() as db:
            self._put(db, machine)

    def _put(self, db: sqlite3.Connection, machine: Machine) -> None:
        if machine.cpu_cores < 1 or machine.memory_mb < 1:
            detail = f"{machine.name}: {machine.cpu_cores} cores, {machine.memory_mb} MB"
            raise Refused(message("A machine needs at least one processor and some memory."), detail)
        if machine.tpm and not self.options.tpm:
            raise Refused(message("The hypervisor cannot give the machine a TPM."), f"no TPM for machine {machine.id}")
        if machine.secure_boot and (machine.kernel or not self.options.secure_boot):
            raise Refused(
                message("The hypervisor cannot give the machine secure boot."), f"no firmware for {machine.id}"
            )
        statement = """INSERT INTO machines (id, name, definition) VALUES (?, ?, ?)
                 ON CONFLICT (id) DO UPDATE SET name = excluded.name, definition = excluded.definition"""
        if db.execute("SELECT 1 FROM machines WHERE name = ? AND id <> ?", (machine.name, machine.id)).fetchone():
            raise Refused(message("Another machine on the hypervisor has that name."), f"name {machine.name}")
        self._ensure_disks(db, asdict(machine))
        db.execute(statement, (machine.id, machine.name, orjson.dumps(machine)))
        self._delete_saved_state(db, machine.id)

    def update_nics(self, machine_id: str, nics: tuple[Nic, ...]) -> None:
        nics_by_mac = {nic.mac: asdict(nic) for nic in nics}
        with self.state.transaction() as db:
            row = self._get_machine(db, machine_id)
            for view in ("definition", "live"):
                if row[view]:
                    definition = orjson.loads(row[view])
                    definition["nics"] = [nics_by_mac.get(nic["mac"], nic) for nic in definition["nics"]]
                    self._change(db, machine_id, **{view: orjson.dumps(definition)})
            saved = self._find_saved_state(db, machine_id)
            if saved is not None:
                live = orjson.loads(saved["live"])
                live["nics"] = [nics_by_mac.get(nic["mac"], nic) for nic in live["nics"]]
                statement = "UPDATE saved_states SET live = ? WHERE machine_id = ?"
                db.execute(statement, (orjson.dumps(live), machine_id))

    def power(self, machine_id: str) -> Power:
        rows = self.state.rows("SELECT power FROM machines WHERE id = ?", machine_id)
        if not rows:
            raise NotOnNode(message("The machine is not on the hypervisor."), f"machine {machine_id}")
        return Power(rows[0]["power"])

    def start(self, machine_id: str) -> None:
        with self.state.transaction() as db:
            self._start(db, machine_id)

    def shutdown(self, machine_id: str) -> None:
        with self.state.transaction() as db:
            row = self._get_machine(db, machine_id)
            if row["power"] == Power.paused:
                raise Refused(
                    message("The machine is suspended, so its guest cannot be asked."), f"machine {machine_id}"
                )
            if self._is_booted(row) and row["heeds_shutdown"]:
                self._turn_off(db, machine_id)

    def power_off(self, machine_id: str) -> None:
        with self.state.transaction() as db:
            self._get_machine(db, machine_id)
            self._turn_off(db, machine_id)

    def restart(self, machine_id: str) -> None:
        with self.state.transaction() as db:
            row = self._get_running(db, machine_id)
            if self._is_booted(row) and row["heeds_shutdown"]:
                self._reboot(db, row)

    def reset(self, machine_id: str) -> None:
        with self.state.transaction() as db:
            self._reboot(db, self._get_running(db, machine_id))

    def suspend(self, machine_id: str) -> None:
        with self.state.transaction() as db:
            row = self._get_running(db, machine_id)
            ran = compute_uptime(row, clock.now().timestamp())
            self._change(db, machine_id, power="paused", ran=ran, since=None)

    def resume(self, machine_id: str) -> None:
        with self.state.transaction() as db:
            if self._get_running(db, machine_id)["power"] == Power.paused:
                self._change(db, machine_id, power="on", since=clock.now().timestamp())

    def delete(self, machine_id: str) -> None:
        with self.state.transaction() as db:
            db.execute("DELETE FROM machines WHERE id = ?", (machine_id,))

    def console(self, machine_id: str, password: str) -> Endpoint:
        with self.state.transaction() as db:
            live = orjson.loads(self._get_running(db, machine_id)["live"])
            if live.get("kernel") or not (live["vnc"] and live["vnc_password"]):
                raise Refused(
                    message("The instance has no VNC console."),
                    f"machine {machine_id} is defined without VNC or password",
                )
            self._change(db, machine_id, live=orjson.dumps({**live, "vnc_password": password}))
        return Endpoint(*get_vnc_address(), password)

    def screenshot(self, machine_id: str) -> bytes:
        """A screen is black until the guest has booted, and gray afterwards."""
        with self.state.snapshot() as db:
            row = self._get_running(db, machine_id)
        if orjson.loads(row["live"]).get("kernel"):
            raise Refused(message("The machine has no screen."), f"machine {machine_id}")
        width, height = SCREEN_SIZE
        return png.encode(width, height, bytes([GRAY if self._is_booted(row) else 0]) * 3 * width * height)

    def _get_machine(self, db: sqlite3.Connection, machine_id: str) -> sqlite3.Row:
        row = db.execute("SELECT * FROM machines WHERE id = ?", (machine_id,)).fetchone()
        if row is None:
            raise NotOnNode(message("The machine is not on the hypervisor."), f"machine {machine_id}")
        return row

    def _get_running(self, db: sqlite3.Connection, machine_id: str) -> sqlite3.Row:
        row = self._get_machine(db, machine_id)
        if row["power"] == Power.off:
            raise Refused(message("The machine is off."), f"machine {machine_id}")
        return row

    def _find_saved_state(self, db: sqlite3.Connection, machine_id: str) -> sqlite3.Row | None:
        return db.execute("SELECT * FROM saved_states WHERE machine_id = ?", (machine_id,)).fetchone()

    def _delete_saved_state(self, db: sqlite3.Connection, machine_id: str) -> None:
        db.execute("DELETE FROM saved_states WHERE machine_id = ?", (machine_id,))

    def _ensure_no_saved_state(self, db: sqlite3.Connection, machine_id: str) -> None:
        """Raise `Refused` for a machine with a saved state, which would not have what is about to be changed."""
        if self._find_saved_state(db, machine_id) is not None:
            raise Refused(message("The machine's memory is saved. Start it first."), f"machine {machine_id}")

    def _change(self, db: sqlite3.Connection, machine_id: str, **values: Any) -> None:
        columns = ", ".join(f"{column} = :{column}" for column in values)
        db.execute(f"UPDATE machines SET {columns} WHERE id = :id", {**values, "id": machine_id})

    def _start(self, db: sqlite3.Connection, machine_id: str) -> None:
        row = self._get_machine(db, machine_id)
        if row["power"] != Power.off:
            return
        machine = orjson.loads(row["definition"])
        self._ensure_disks(db, machine)
        self._ensure_memory(db, machine)
        run_columns = {"ran": 0, "since": clock.now().timestamp(), "boots": row["boots"] + 1, "booted_from": 0}
        live_columns = {
            "live": row["definition"],
            "memory": machine["memory_mb"],
            "guest": self._has_system(db, machine),
        }
        self._change(db, machine_id, power="on", **run_columns, **live_columns)

    def _turn_off(self, db: sqlite3.Connection, machine_id: str) -> None:
        self._change(db, machine_id, power="off", live=None, memory=0)

    def _reboot(self, db: sqlite3.Connection, row: sqlite3.Row) -> None:
        booted_from = compute_uptime(row, clock.now().timestamp())
        self._change(db, row["id"], boots=row["boots"] + 1, booted_from=booted_from)

    def _is_booted(self, row: sqlite3.Row) -> bool:
        """Return whether a guest runs in the machine and has finished booting."""
        booted = compute_uptime(row, clock.now().timestamp()) - row["booted_from"] >= self.options.boot_seconds
        return bool(row["power"] == Power.on and row["guest"] and booted)

    def _ensure_disks(self, db: sqlite3.Connection, machine: dict[str, Any]) -> None:
        """Raise `NotOnNode` unless every disk and medium exists, and the image that a disk is based on."""
        query = "SELECT parent FROM disks WHERE pool = ? AND name = ?"
        kernel = machine.get("kernel") or {}
        kernel_files = [kernel[file] for file in ("image", "initrd") if file in kernel]
        for disk in (*machine["disks"], *machine["media"].values(), *kernel_files):
            row = db.execute(query, (disk["pool"], disk["name"])).fetchone()
            if row is None or (row["parent"] and not db.execute(query, (disk["pool"], row["parent"])).fetchone()):
                detail = f"disk {disk['name']} in pool {disk['pool']}, or the image it is based on"
                raise NotOnNode(message("A disk of the machine is not on the hypervisor."), detail)

    def _ensure_memory(self, db: sqlite3.Connection, machine: dict[str, Any]) -> None:
        used = db.execute("SELECT coalesce(sum(memory), 0) FROM machines WHERE memory > 0").fetchone()[0]
        free = self.options.memory_gb * 1024 - used
        if machine["memory_mb"] > free:
            detail = f"{machine['name']} needs {machine['memory_mb']} MB, {free} MB are free"
            raise NoCapacity(message("There is not enough memory on the hypervisor."), detail)

    def _has_system(self, db: sqlite3.Connection, machine: dict[str, Any]) -> bool:
        """Return whether the first disk was made from an image, or restored from such a disk: a blank disk has no
        system, so no guest boots from it."""
        image_query = "SELECT 1 FROM disks WHERE pool = ? AND name = ? AND (parent IS NOT NULL OR kind = 'system disk')"
        return any(db.execute(image_query, (disk["pool"], disk["name"])).fetchone() for disk in machine["disks"][:1])


def compute_uptime(row: sqlite3.Row, now: float) -> float:
    """Return the seconds the machine has run since its start, without those it was suspended."""
    return row["ran"] + max(0, now - row["since"]) if row["power"] == Power.on else row["ran"]


def build_machine_status(row: sqlite3.Row, now: float) -> MachineStatus:
    power = Power(row["power"])
    counters = (
        {} if power == Power.off else compute_counters(row["id"], orjson.loads(row["live"]), compute_uptime(row, now))
    )
    return MachineStatus(row["id"], row["name"], power, **counters)
