"""Pings of many guest agents at once, and the file systems of one guest."""

import json
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import libvirt
import libvirt_qemu

from worker.nodes.base import FileSystem
from worker.nodes.libvirt.connection import ConnectionPool, is_alive
from worker.nodes.libvirt.errors import AGENT_UNAVAILABLE_CODES
from worker.nodes.libvirt.guest_agent import ANSWER_SECONDS, get_running_domain, send_command
from worker.nodes.libvirt.machines import get_domain

MAX_CONCURRENT_PINGS = 8
"""Concurrent pings on one node. An agent that hangs blocks one of the daemon's 20 workers for ANSWER_SECONDS, and other
calls need workers, too."""

PING_COMMAND = json.dumps({"execute": "guest-ping"})

NO_AGENT_CODES = (*AGENT_UNAVAILABLE_CODES, libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED)
"""The agent is stopped or hangs, or the machine has no channel for one. Other errors say nothing about the agent."""


class AgentPinger:
    """Pings agents for one node. All callers in the process share the limit."""

    def __init__(self, connections: ConnectionPool) -> None:
        self.connections = connections
        self.slots = threading.BoundedSemaphore(MAX_CONCURRENT_PINGS)
        self.last_answer_at = time.monotonic()

    def get_last_answer_at(self) -> float:
        """Return when the node last answered a ping (monotonic), for the deadline of the whole call."""
        return self.last_answer_at

    def ping_all(self, machine_ids: Iterable[str], seconds: float) -> dict[str, bool]:
        machine_ids = list(machine_ids)
        ids, deadline, results = iter(machine_ids), time.monotonic() + seconds, {}
        thread_count, lock = min(MAX_CONCURRENT_PINGS, len(machine_ids)), threading.Lock()
        self.last_answer_at = time.monotonic()

        def next_id() -> str | None:
            with lock:
                return next(ids, None) if time.monotonic() < deadline else None

        def ping_some() -> None:
            with self.slots, self.connections.borrow() as connection:
                while (machine_id := next_id()) is not None:
                    if (has_answered := self.ping(connection, machine_id)) is not None:
                        results[machine_id] = has_answered
                    self.last_answer_at = time.monotonic()

        with ThreadPoolExecutor(max(1, thread_count), thread_name_prefix="agent ping") as pool:
            for future in [pool.submit(ping_some) for _ in range(thread_count)]:
                future.result()
        return results

    def ping(self, connection: libvirt.virConnect, machine_id: str) -> bool | None:
        try:
            libvirt_qemu.qemuAgentCommand(get_domain(connection, machine_id), PING_COMMAND, ANSWER_SECONDS, 0)
        except libvirt.libvirtError as error:
            if not is_alive(connection):
                raise
            return False if error.get_error_code() in NO_AGENT_CODES else None
        return True


def list_filesystems(connection: libvirt.virConnect, machine_id: str) -> list[FileSystem]:
    entries = send_command(get_running_domain(connection, machine_id), "guest-get-fsinfo")
    return [
        FileSystem(entry["mountpoint"], entry["type"], entry["total-bytes"], entry.get("used-bytes", 0))
        for entry in entries
        if entry.get("total-bytes")
    ]
