"""`panel sandbox` with guests that are local processes: run as `python -m tests.sandbox_clients.local_guests`.

The simulated node's channels end in daemons of sandboxes, which run in this machine's network, with processes and home
folders of their own, and do not end by themselves. Needs root, who is called `user` there: nobody else can read a
checkout wherever it is.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from panel.cli import main
from worker.nodes.simulated import SimulatedNode, channels
from worker.sandbox_guest import channel
from worker.sandbox_guest.identity_stream import read_document
from worker.sandbox_guest.log_entries import INFO
from worker.sandbox_guest.mux import Mux
from worker.sandbox_guest.mux_stream import IDENTITY_PORT
from worker.sandbox_guest.reports import Reporter

PACKAGE_PARENT = Path(__file__).parents[2] / "worker"
COMMAND_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ISOLATION = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
START_DAEMON = """
mount --bind "$0/passwd" /etc/passwd
mount --bind "$0/group" /etc/group
exec "$@"
"""


class Guest:
    """The processes of one sandbox. They keep running while it is paused and nobody reaches them."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="sandbox-", dir=os.environ["PANEL_DATA_DIR"]))
        home = self.folder / "home"
        home.mkdir()
        (self.folder / "passwd").write_text(f"user:x:0:0::{home}:/bin/bash\n")
        (self.folder / "group").write_text("user:x:0:\n")
        self.ports = self.start_daemon()

    def start_daemon(self):
        """Start the daemon and return its ports by those that clients name."""
        options = f"--port 0 --code-interpreter-port 0 --identity {self.folder}/identity.json".split()
        command = [sys.executable, "-S", "-m", "sandbox_guest", *options]
        environment = {"PATH": COMMAND_PATH, "LANG": "C.UTF-8"}
        process = subprocess.Popen(
            [*ISOLATION, "sh", "-ec", START_DAEMON, self.folder, *command],
            cwd=PACKAGE_PARENT,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        ports = {port: int(re.search(r"port (\d+)", process.stderr.readline())[1]) for port in (49983, 49999)}
        threading.Thread(target=copy_lines, args=(process.stderr,), daemon=True).start()
        return ports

    def set_identity(self, document):
        path = self.folder / "identity.json"
        path.with_suffix(".new").write_text(json.dumps(document))
        path.with_suffix(".new").rename(path)


def copy_lines(log):
    for line in log:
        print(line, end="", file=sys.stderr, flush=True)


class ChannelEnd:
    """The guest's end of a channel. The identity that arrives by it tells which guest that is."""

    guests = {}
    """By the machine's id, so that a sandbox has the same processes after a pause."""
    lock = threading.Lock()

    def serve(self, guest_end):
        asyncio.run(self.run(guest_end))

    async def run(self, guest_end):
        self.reporter = Reporter()
        reader, writer = await asyncio.open_connection(sock=guest_end.dup())
        await Mux(reader, writer, self.accept).run()

    async def accept(self, stream):
        if stream.port == IDENTITY_PORT:
            return await self.receive_identity(stream)
        stream.port = self.guest.ports.get(stream.port, stream.port)
        return await channel.connect_port(stream)

    async def receive_identity(self, stream):
        stream.mux.confirm(stream)
        document = await read_document(stream)
        answer = {}
        if "report" in document:
            answer = await self.reporter.build_report(document["report"])
        else:
            self.guest = await asyncio.to_thread(self.find_guest, document["machine_id"])
            self.guest.set_identity(document)
            self.reporter.entries.log(INFO, "daemon", "Identity applied")
        stream.write(json.dumps(answer).encode())
        stream.write_eof()
        await stream.wait_closed()

    def find_guest(self, machine_id):
        with self.lock:
            if machine_id not in self.guests:
                self.guests[machine_id] = Guest()
            return self.guests[machine_id]


if __name__ == "__main__":
    # A real node ends the channels of a sandbox when it pauses. The simulated one notices it as often as this.
    channels.EVENT_POLL_INTERVAL_SECONDS = 0.01
    SimulatedNode.serve_channel = staticmethod(lambda guest_end: ChannelEnd().serve(guest_end))
    main(["sandbox"])
