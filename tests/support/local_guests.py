"""`panel sandbox` with guests that are local processes: run as `python -m tests.support.local_guests`.

The simulated node's channels end in daemons of sandboxes, which run in this machine's network, with processes, users
and home folders of their own, until the machine is deleted or this process ends. Needs root, who is called `user`
there: nobody else can read a checkout wherever it is.
"""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from panel.cli import main
from worker.nodes.simulated import SimulatedNode, channels
from worker.sandbox_guest import channel
from worker.sandbox_guest.identity_stream import receive_identity
from worker.sandbox_guest.log_entries import receive_entries
from worker.sandbox_guest.mux import Mux
from worker.sandbox_guest.mux_stream import IDENTITY_PORT
from worker.sandbox_guest.reports import Reporter

PACKAGE_PARENT = Path(__file__).parents[2] / "worker"
COMMAND_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PORTS = (49983, 49999)
"""The ports of the daemon, in the order in which it logs those that it got instead."""

START_GUEST = """
unshare --mount --pid --fork --kill-child --mount-proc sh -ec '
    mount --bind "$0/etc/passwd" /etc/passwd
    mount --bind "$0/etc/group" /etc/group
    exec "$@"
' "$@" &
cat
kill -9 $!
"""
"""Runs until its standard input ends, as it does when this process is killed."""


class Guest:
    """The processes of one sandbox. They keep running while it is paused and nobody reaches them."""

    def __init__(self):
        self.root = Path(tempfile.mkdtemp(prefix="sandbox-", dir=os.environ["PANEL_DATA_DIR"]))
        for name in ("etc", "home"):
            (self.root / name).mkdir()
        (self.root / "etc/passwd").write_text(f"user:x:0:0::{self.root / 'home'}:/bin/bash\n")
        (self.root / "etc/group").write_text("user:x:0:\n")
        options = f"--port 0 --code-interpreter-port 0 --identity {self.root}/run/sandbox/identity.json".split()
        command = [sys.executable, "-S", "-m", "sandbox_guest", *options, "--log", self.root / "log"]
        self.process = subprocess.Popen(
            ["sh", "-c", START_GUEST, "sh", self.root, *command],
            cwd=PACKAGE_PARENT,
            env={"PATH": COMMAND_PATH, "LANG": "C.UTF-8"},
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.ports = {port: int(re.search(r"port (\d+)", self.process.stderr.readline())[1]) for port in PORTS}
        threading.Thread(target=copy_lines, args=(self.process.stderr,), daemon=True).start()

    async def serve(self, guest_end):
        """Serve one channel to this guest until it ends."""
        self.reporter = Reporter()
        with receive_entries(self.reporter.entries, str(self.root / "log")):
            reader, writer = await asyncio.open_connection(sock=guest_end.dup())
            await Mux(reader, writer, self.accept).run()

    async def accept(self, stream):
        if stream.port == IDENTITY_PORT:
            return await receive_identity(stream, self.root, self.reporter)
        stream.port = self.ports.get(stream.port, stream.port)
        await channel.connect_port(stream)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def copy_lines(log):
    for line in log:
        print(line, end="", file=sys.stderr, flush=True)


guests = {}
"""By the machine's id, so that a sandbox has the same processes after a pause."""
guests_lock = threading.Lock()
"""A router that tries again opens a second channel while the guest still starts."""


def serve_channel(node, guest_end):
    (machine_id,) = [key[1] for key, end in node.open_channels.items() if end is guest_end]
    with guests_lock:
        if machine_id not in guests:
            guests[machine_id] = Guest()
            threading.Thread(target=end_with_machine, args=(node, machine_id), daemon=True).start()
    asyncio.run(guests[machine_id].serve(guest_end))


def end_with_machine(node, machine_id):
    while node.state.rows("SELECT 1 FROM machines WHERE id = ?", machine_id):
        time.sleep(0.2)
    guests.pop(machine_id).end()


if __name__ == "__main__":
    # A real node ends the channels of a sandbox when it pauses. The simulated one notices it as often as this.
    channels.EVENT_POLL_INTERVAL_SECONDS = 0.01
    SimulatedNode.serve_channel = serve_channel
    main(["sandbox"])
