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

PINGS_AT_ONCE = 8
"""Pings under way on one node. An agent that hangs blocks one of the daemon's 20 workers for ANSWER_SECONDS, and other
calls need workers, too."""

PING_COMMAND = json.dumps({"execute": "guest-ping"})

NO_AGENT_CODES = (*AGENT_UNAVAILABLE_CODES, libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED)
"""The agent is away or hangs, or the machine has no channel for one. Any other error says nothing of the agent."""


class AgentPinger:
    """Pings agents for one node. All callers in the process share the limit."""

    def __init__(self, lines: ConnectionPool):
        self.lines = lines
        self.slots = threading.BoundedSemaphore(PINGS_AT_ONCE)
        self.last_answer = time.monotonic()

    def heard(self) -> float:
        """When the node last answered anything, for the deadline of the whole."""
        return self.last_answer

    def ping_all(self, machine_ids: Iterable[str], seconds: float) -> dict[str, bool]:
        machine_ids = list(machine_ids)
        ids, until, found = iter(machine_ids), time.monotonic() + seconds, {}
        at_once, lock = min(PINGS_AT_ONCE, len(machine_ids)), threading.Lock()
        self.last_answer = time.monotonic()

        def next_id():
            with lock:
                return next(ids, None) if time.monotonic() < until else None

        def ping_some():
            with self.slots, self.lines.one() as line:
                while (machine_id := next_id()) is not None:
                    if (answers := self.ping(line, machine_id)) is not None:
                        found[machine_id] = answers
                    self.last_answer = time.monotonic()

        with ThreadPoolExecutor(max(1, at_once), thread_name_prefix="agent ping") as pool:
            for each in [pool.submit(ping_some) for _ in range(at_once)]:
                each.result()
        return found

    def ping(self, line: libvirt.virConnect, machine_id: str) -> bool | None:
        try:
            libvirt_qemu.qemuAgentCommand(get_domain(line, machine_id), PING_COMMAND, ANSWER_SECONDS, 0)
        except libvirt.libvirtError as error:
            if not is_alive(line):
                raise
            return False if error.get_error_code() in NO_AGENT_CODES else None
        return True


def filesystems(connection, machine_id: str) -> list[FileSystem]:
    found = send_command(get_running_domain(connection, machine_id), "guest-get-fsinfo")
    return [
        FileSystem(each["mountpoint"], each["type"], each["total-bytes"], each.get("used-bytes", 0))
        for each in found
        if each.get("total-bytes")
    ]
