"""The channels of a simulated node: a thread of this process stands for the program in the guest."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable

import orjson

from panel.core.messages import message
from worker.nodes.base import Refused
from worker.nodes.simulated.machines import EVENT_POLL_INTERVAL_SECONDS, Machines

READ_CHUNK_BYTES = 2**16


def echo(guest_end: socket.socket) -> None:
    """Send back what arrives."""
    while data := guest_end.recv(READ_CHUNK_BYTES):
        guest_end.sendall(data)


class Channels(Machines):
    serve_channel: Callable[[socket.socket], None] = staticmethod(echo)
    """What the guest does with its end of a channel. Tests may set another."""

    open_channels: dict[tuple[str, str], socket.socket] = {}
    """The guests' ends by node and machine. They end with this process, as all channels do."""

    def open_channel(self, machine_id: str) -> socket.socket:
        with self.state.snapshot() as db:
            live = orjson.loads(self._get_running(db, machine_id)["live"])
        if not live.get("channel"):
            raise Refused(message("The machine has no channel."), f"machine {machine_id} runs without a channel")
        caller_end, guest_end = socket.socketpair()
        key = str(self.state.path), machine_id
        shut_down(self.open_channels.get(key))
        self.open_channels[key] = guest_end
        for function in (self._serve_channel, self._end_with_machine):
            threading.Thread(target=function, args=(machine_id, guest_end), daemon=True).start()
        return caller_end

    def _serve_channel(self, machine_id: str, guest_end: socket.socket) -> None:
        with guest_end, contextlib.suppress(OSError):
            self.serve_channel(guest_end)

    def _end_with_machine(self, machine_id: str, guest_end: socket.socket) -> None:
        query = "SELECT 1 FROM events WHERE machine_id = ? AND id > ? AND (power IS NULL OR power = 'off')"
        last_id = self.state.rows("SELECT coalesce(max(id), 0) FROM events")[0][0]
        while guest_end.fileno() >= 0:
            if self.state.rows(query, machine_id, last_id):
                shut_down(guest_end)
                return
            time.sleep(EVENT_POLL_INTERVAL_SECONDS)


def shut_down(guest_end: socket.socket | None) -> None:
    if guest_end is not None:
        with contextlib.suppress(OSError):
            guest_end.shutdown(socket.SHUT_RDWR)
