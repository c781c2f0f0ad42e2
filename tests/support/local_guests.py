"""`panel sandbox` with guests that are local processes: run as `python -m tests.support.local_guests`.

The channels of the simulated node end in this process, which starts a daemon for each of them.
"""

import asyncio
import os
import pwd
import re
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from panel.cli import main
from worker.nodes.simulated import SimulatedNode
from worker.sandbox_guest import channel
from worker.sandbox_guest.identity_stream import receive_identity
from worker.sandbox_guest.log_entries import receive_entries
from worker.sandbox_guest.mux import Mux
from worker.sandbox_guest.mux_stream import IDENTITY_PORT
from worker.sandbox_guest.reports import Reporter

PACKAGE_PARENT = Path(__file__).parents[2] / "worker"
DAEMON_PORT = 49983
ENVIRONMENT = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


class Guest:
    """One channel's end, and the daemon behind it, which ends with the channel."""

    def __init__(self):
        self.root = Path(tempfile.mkdtemp(prefix="sandbox-"))
        (self.root / "etc").mkdir()
        self.daemon = self.port = None

    def serve(self, guest_end):
        try:
            asyncio.run(self.run(guest_end))
        finally:
            if self.daemon:
                self.daemon.terminate()
                self.daemon.wait()

    async def run(self, guest_end):
        self.reporter = Reporter()
        receive_entries(self.reporter.entries, str(self.root / "log"))
        self.daemon, self.port = await asyncio.to_thread(self.start_daemon)
        reader, writer = await asyncio.open_connection(sock=guest_end.dup())
        await Mux(reader, writer, self.accept).run()

    async def accept(self, stream):
        if stream.port != IDENTITY_PORT:
            stream.port = self.port if stream.port == DAEMON_PORT else stream.port
            return await channel.connect_port(stream)
        await receive_identity(stream, self.root, self.reporter)

    def start_daemon(self):
        options = ["--port", "0", "--identity", str(self.root / "run/sandbox/identity.json")]
        command = [sys.executable, "-S", "-m", "sandbox_guest", *options, "--log", str(self.root / "log")]
        daemon = subprocess.Popen(command, cwd=PACKAGE_PARENT, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
        port = int(re.search(r"port (\d+)", daemon.stderr.readline())[1])
        threading.Thread(target=copy_lines, args=(daemon.stderr,), daemon=True).start()
        return daemon, port


def copy_lines(log):
    for line in log:
        print(line, end="", file=sys.stderr, flush=True)


def name_current_user():
    """Let the default user of sandboxes be this one: local daemons cannot act as another."""
    user = pwd.getpwuid(os.geteuid()).pw_name
    from worker.sandbox_router import channels

    build_identity = channels.build_identity
    channels.build_identity = lambda route: {**build_identity(route), "default_user": user}


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    name_current_user()
    SimulatedNode.serve_channel = staticmethod(lambda guest_end: Guest().serve(guest_end))
    main(["sandbox"])
