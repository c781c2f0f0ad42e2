"""The network of micro VMs of a simulated node."""

import ipaddress
import sqlite3
from typing import Any

import orjson

from panel.core.messages import message
from worker.nodes.base import NotOnNode, SandboxNetwork
from worker.nodes.simulated.machines import Machines

SANDBOX_NETWORK_SCHEMA = """
CREATE TABLE IF NOT EXISTS sandbox_networks (cidr TEXT NOT NULL, refused BLOB NOT NULL);
"""


class SandboxNetworks(Machines):
    def ensure_sandbox_network(self, network: SandboxNetwork) -> None:
        with self.state.transaction() as db:
            db.execute("DELETE FROM sandbox_networks")
            db.execute("INSERT INTO sandbox_networks VALUES (?, ?)", (network.cidr, orjson.dumps(network.refused)))

    def find_sandbox_network(self) -> SandboxNetwork | None:
        """Return the network; not in the contract."""
        rows = self.state.rows("SELECT cidr, refused FROM sandbox_networks")
        return SandboxNetwork(rows[0]["cidr"], tuple(orjson.loads(rows[0]["refused"]))) if rows else None

    def can_send(self, machine_id: str, address: str) -> bool:
        """Return whether the rules let the machine's guest send to the address; not in the contract."""
        nics = self.get_nics(machine_id)  # type: ignore[attr-defined]  # of the external actions
        network = self.find_sandbox_network()
        if not nics or network is None or is_in(address, (network.cidr, *network.refused)):
            return False
        egress = nics[0]["egress"]
        return is_in(address, egress["allowed"]) or not is_in(address, egress["denied"])

    def _start(self, db: sqlite3.Connection, machine_id: str) -> None:
        nics = orjson.loads(self._get_machine(db, machine_id)["definition"])["nics"]
        is_connected = any(nic.get("egress") is not None for nic in nics)
        if is_connected and db.execute("SELECT 1 FROM sandbox_networks").fetchone() is None:
            raise NotOnNode(message("The hypervisor does not have this network."), "no network of micro VMs")
        super()._start(db, machine_id)


def is_in(address: str, networks: Any) -> bool:
    return any(ipaddress.ip_address(address) in ipaddress.ip_network(network) for network in networks)
