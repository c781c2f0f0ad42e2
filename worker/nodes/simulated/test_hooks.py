"""Events on a simulated node that the panel did not cause: by its owner, its power supply and its guests.

None of this is in the contract. It is there for tests and demonstrations, and meets no faults.
"""

import argon2
import orjson

from worker.nodes.base import Seed
from worker.nodes.simulated.guests import PASSWORD_HASHER
from worker.nodes.simulated.machines import AGENT_HANGS, Machines
from worker.nodes.simulated.storage import find_seed


class ExternalActions(Machines):
    def guest_powers_off(self, machine_id: str) -> None:
        """Turn off, as by `poweroff` inside the guest, or when its process died."""
        with self.state.transaction() as db:
            self._get_machine(db, machine_id)
            self._turn_off(db, machine_id)

    def guest_restarts(self, machine_id: str) -> None:
        """Restart, as by `reboot` inside the guest."""
        with self.state.transaction() as db:
            self._reboot(db, self._get_running(db, machine_id))

    def external_start(self, machine_id: str) -> None:
        """Start the machine, as by the owner's own tools on the node."""
        with self.state.transaction() as db:
            self._start(db, machine_id)

    def external_delete(self, machine_id: str) -> None:
        """Delete the machine, as by the owner's own tools on the node; its disks stay."""
        with self.state.transaction() as db:
            self._get_machine(db, machine_id)
            db.execute("DELETE FROM machines WHERE id = ?", (machine_id,))

    def node_restarts(self) -> None:
        """Restart the whole node: definitions and disks stay, nothing runs."""
        with self.state.transaction() as db:
            db.execute("UPDATE machines SET power = 'off', live = NULL, memory = 0")

    def set_guest(
        self, machine_id: str, *, heeds_shutdown: bool = True, agent: bool = True, agent_hangs: bool = False
    ) -> None:
        """Set whether the guest turns off when asked to, and whether it has a guest agent that answers or hangs."""
        with self.state.transaction() as db:
            self._get_machine(db, machine_id)
            state = AGENT_HANGS if agent_hangs else int(agent)
            self._change(db, machine_id, heeds_shutdown=heeds_shutdown, agent=state)

    def make_unimportable(self, machine_id: str, sentence: str, device: str | None = None) -> None:
        """Give a machine, or one of its disks, something that a machine of the panel cannot have."""
        with self.state.transaction() as db:
            self._get_machine(db, machine_id)
            db.execute("INSERT INTO oddities VALUES (?, ?, ?)", (machine_id, device, sentence))

    def break_checkpoints(self, machine_id: str) -> None:
        """Make the node lose what has changed since the machine's checkpoints, as when its QEMU was killed."""
        with self.state.transaction() as db:
            db.execute("UPDATE checkpoints SET is_broken = 1 WHERE machine_id = ?", (machine_id,))

    def get_definition(self, machine_id: str) -> tuple[str, bytes]:
        """Return the machine's name and definition, for comparisons."""
        with self.state.snapshot() as db:
            row = self._get_machine(db, machine_id)
        return row["name"], row["definition"]

    def seed_of(self, machine_id: str) -> Seed | None:
        """Return the seed in the machine's drive, or None."""
        with self.state.snapshot() as db:
            slot = orjson.loads(self._get_machine(db, machine_id)["definition"])["media"].get("seed")
        return slot and find_seed(self.state, slot["pool"], slot["name"])

    def get_nics(self, machine_id: str) -> list[dict]:
        """Return the NICs of the running machine, or of the one that is off, as they were described last."""
        with self.state.snapshot() as db:
            row = self._get_machine(db, machine_id)
        return orjson.loads(row["live"] or row["definition"])["nics"]

    def get_loaded_media(self, machine_id: str, slot: str) -> str | None:
        """Return the name of the medium in the drive, of the running machine if it runs; None when it is empty."""
        with self.state.snapshot() as db:
            row = self._get_machine(db, machine_id)
        medium = orjson.loads(row["live"] or row["definition"])["media"].get(slot)
        return medium and medium["name"]

    def list_booted_disks(self, machine_id: str) -> list[str]:
        """Return the names of the running machine's disks."""
        with self.state.snapshot() as db:
            return [disk["name"] for disk in orjson.loads(self._get_running(db, machine_id)["live"])["disks"]]

    def is_vnc_password(self, machine_id: str, password: str) -> bool:
        """Return whether that password opens the VNC console of the running machine."""
        with self.state.snapshot() as db:
            live = orjson.loads(self._get_running(db, machine_id)["live"])
        return bool(live["vnc"] and live["vnc_password"] == password)

    def list_authorized_keys(self, machine_id: str) -> list[str]:
        """Return the lines that the panel added to root's keys, oldest first."""
        query = "SELECT line FROM keys WHERE machine_id = ? ORDER BY id"
        return [line for (line,) in self.state.rows(query, machine_id)]

    def can_sign_in(self, machine_id: str, user: str, password: str) -> bool:
        """Return whether the user can sign in to the guest with that password."""
        hashes = self.state.rows("SELECT hash FROM passwords WHERE machine_id = ? AND user = ?", machine_id, user)
        try:
            return bool(hashes) and PASSWORD_HASHER.verify(hashes[0]["hash"], password)
        except argon2.exceptions.VerifyMismatchError:
            return False
