"""The guests of a simulated node: the answers of a machine's guest agent."""

import sqlite3
import time
import uuid
from collections.abc import Iterable

import argon2
import orjson
import yaml

from panel.core import clock
from panel.core.messages import message
from worker.guest import ssh_keys
from worker.nodes.base import AgentUnavailable, CommandResult, FileSystem, Refused
from worker.nodes.simulated import docker, overlays
from worker.nodes.simulated.counters import compute_key_fraction
from worker.nodes.simulated.machines import AGENT_ANSWERS, Machines, compute_uptime
from worker.nodes.simulated.state import State
from worker.nodes.simulated.storage import find_seed

PASSWORD_HASHER = argon2.PasswordHasher(time_cost=1, memory_cost=1024, parallelism=1)


class Guests(Machines):
    def agent_ping(self, machine_id: str) -> None:
        self._get_guest(machine_id)

    def ping_agents(self, machine_ids: Iterable[str], seconds: float = 20.0) -> dict[str, bool]:
        ids = orjson.dumps(list(machine_ids)).decode()
        query = "SELECT * FROM machines WHERE power = 'on' AND id IN (SELECT value FROM json_each(?))"
        return {
            row["id"]: self._is_booted(row) and row["agent"] == AGENT_ANSWERS for row in self.state.rows(query, ids)
        }

    def agent_filesystems(self, machine_id: str) -> list[FileSystem]:
        root_disk = self._get_guest(machine_id).live["disks"][0]
        rows = self.state.rows(
            "SELECT size FROM disks WHERE pool = ? AND name = ?", root_disk["pool"], root_disk["name"]
        )
        share_used = 0.1 + 0.7 * compute_key_fraction(machine_id + "files")
        return [FileSystem("/", "ext4", size, int(size * share_used)) for (size,) in rows]

    def agent_addresses(self, machine_id: str) -> dict[str, list[str]]:
        return {nic["mac"]: nic["addresses"] for nic in self._get_guest(machine_id).nics}

    def agent_run(
        self, machine_id: str, command: Iterable[str], stdin: str = "", deadline: float = 30
    ) -> CommandResult:
        program, *arguments = command
        guest = self._get_guest(machine_id)
        if program == "sleep":
            return sleep(float(arguments[0]), deadline)
        if program not in GUEST_PROGRAMS:
            raise Refused(message("The guest could not run the program."), f"{program} is not in machine {machine_id}")
        return GUEST_PROGRAMS[program](guest, arguments, stdin)

    def agent_set_password(self, machine_id: str, user: str, password: str) -> None:
        """Set the password. An agent that hangs sets it too, although the caller gets `AgentUnavailable`."""
        with self.state.transaction() as db:
            machine = self._get_machine(db, machine_id)
            if self._is_booted(machine) and machine["agent"]:
                row = (machine_id, user, PASSWORD_HASHER.hash(password))
                db.execute("INSERT OR REPLACE INTO passwords VALUES (?, ?, ?)", row)
        self._get_guest(machine_id)

    def _get_guest(self, machine_id: str) -> "Guest":
        with self.state.snapshot() as db:
            row = self._get_machine(db, machine_id)
        if not (self._is_booted(row) and row["agent"] == AGENT_ANSWERS):
            raise AgentUnavailable(
                message("The guest agent does not answer."), f"machine {machine_id} is {row['power']}"
            )
        return Guest(self.state, row)


class Guest:
    """The inside of a guest: its files, host name and keys."""

    def __init__(self, state: State, row: sqlite3.Row) -> None:
        self.state, self.row = state, row
        self.live = orjson.loads(row["live"])
        self.nics = self.live["nics"]

    def hostname(self) -> str:
        """Return the host name of the seed, as cloud-init would set it."""
        slot = self.live["media"].get("seed")
        seed = slot and find_seed(self.state, slot["pool"], slot["name"])
        meta_data = yaml.safe_load(seed.meta_data) if seed else {}
        return meta_data.get("local-hostname", self.live["name"])

    def change_keys(self, action: str, key: str) -> None:
        with self.state.transaction() as db:
            db.execute("DELETE FROM keys WHERE machine_id = ? AND line = ?", (self.row["id"], key))
            if action == "put":
                db.execute("INSERT INTO keys (machine_id, line) VALUES (?, ?)", (self.row["id"], key))

    def files(self) -> dict[str, str]:
        seconds = compute_uptime(self.row, clock.now().timestamp()) - self.row["booted_from"]
        boot = uuid.uuid5(uuid.NAMESPACE_OID, f"{self.row['id']} {self.row['boots']}")
        files = {"/proc/uptime": f"{seconds:.2f} 0.00\n", "/proc/sys/kernel/random/boot_id": f"{boot}\n"}
        for number, nic in enumerate(self.nics):
            files[f"/sys/class/net/eth{number}/carrier"] = f"{int(nic['connected'])}\n"
        query = "SELECT size / 512 FROM disks WHERE pool = ? AND name = ?"
        for letter, disk in zip("abcdefgh", self.live["disks"], strict=False):
            for (sectors,) in self.state.rows(query, disk["pool"], disk["name"]):
                files[f"/sys/class/block/vd{letter}/size"] = f"{sectors}\n"
        return files | overlays.read_files(self.state, self.live["disks"][0])


def sleep(seconds: float, deadline: float) -> CommandResult:
    time.sleep(min(seconds, deadline))
    if seconds > deadline:
        raise AgentUnavailable(
            message("The program in the guest did not finish in time."), f"sleep {seconds}, deadline {deadline}"
        )
    return CommandResult(0, "")


def cat(guest: Guest, paths: list[str], stdin: str) -> CommandResult:
    files = guest.files()
    try:
        return CommandResult(0, "".join(files[path] for path in paths) if paths else stdin)
    except KeyError as missing:
        return CommandResult(1, f"cat: can't open {missing}: No such file or directory\n")


def tee(guest: Guest, paths: list[str], stdin: str) -> CommandResult:
    for path in paths:
        overlays.write_file(guest.state, guest.live["disks"][0], path, stdin)
    return CommandResult(0, stdin)


def sh(guest: Guest, arguments: list[str], stdin: str) -> CommandResult:
    """Do what one of the panel's own scripts would do; there is no real shell."""
    match arguments:
        case ["-c", ssh_keys.CHANGE_KEYS_SCRIPT, _, action]:
            guest.change_keys(action, stdin.strip())
            return CommandResult(0, "")
        case ["-c", script, *words] if (result := docker.run_script(guest, script, words, stdin)) is not None:
            return result
    return CommandResult(127, "sh: a simulated guest runs no scripts\n")


GUEST_PROGRAMS = {
    "true": lambda guest, arguments, stdin: CommandResult(0, ""),
    "false": lambda guest, arguments, stdin: CommandResult(1, ""),
    "echo": lambda guest, arguments, stdin: CommandResult(0, " ".join(arguments) + "\n"),
    "hostname": lambda guest, arguments, stdin: CommandResult(0, guest.hostname() + "\n"),
    "cat": cat,
    "sync": lambda guest, arguments, stdin: CommandResult(0, ""),
    "tee": tee,
    "sh": sh,
}
