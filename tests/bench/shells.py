"""Shells through the real console process to a real sshd, against `ssh -tt` to the same sshd.

Targets of the design: 50 MB of output at least half as fast as with `ssh -tt`; Ctrl-C stops continuous output within
half a second, also for a terminal that draws 2 MB/s. The client acknowledges drawn bytes, as the page does.

Needs Debian's package openssh-server, and starts its own sshd. `make` does not install the package, because Debian
would start a public SSH server.
"""

import contextlib
import getpass
import json
import os
import select
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from consoles import ipc
from tests.bench import console_peers
from tests.bench.consoles import describe_quartiles
from tests.support import console_client
from tests.support.console_client import TEXT
from tests.support.ports import find_free_port
from tests.support.ssh_guest import create_key
from tests.support.waiting import wait_until

ROUNDS, OUTPUT_MEGABYTES = 7, 50
INTERRUPTS, QUIET_SECONDS = 5, 1.0
QUICK_SIZES = {"ROUNDS": 2, "OUTPUT_MEGABYTES": 1, "INTERRUPTS": 1}
SLOW_TERMINAL_SPEED = 2e6
"""Drawing speed of the slow terminal in bytes per second."""


def bench(report):
    sshd = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")
    if sshd is None:
        print("not measured: shells, because there is no sshd (apt install openssh-server)", flush=True)
        return
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = stack.enter_context(run_sshd(sshd, directory))
        text = directory / "text"
        text.write_bytes(b"".join(b"%079d\n" % number for number in range(OUTPUT_MEGABYTES * 1000000 // 80)))
        path = directory / "consoles.sock"
        stack.enter_context(console_peers.BenchProcess(path, module="consoles", ready=path.exists))
        measure_output(
            report, text, lambda: SshTerminal(directory, port), lambda: BrowserTerminal(directory, path, port)
        )
        for name, speed in (("", None), (" that draws slowly", SLOW_TERMINAL_SPEED)):
            times = [measure_interrupt(BrowserTerminal(directory, path, port), speed) for _ in range(INTERRUPTS)]
            print(f"Ctrl-C in a terminal{name}: median {statistics.median(times):.2f} s", flush=True)
            report(f"Ctrl-C into a flood is quiet, in a terminal{name}, within", max(times), 0.5, unit=" s")


@contextlib.contextmanager
def run_sshd(sshd, directory):
    """Run an sshd that accepts this user with one key. Yields its port."""
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    for name in ("host", "key"):
        (directory / name).touch(mode=0o600)
        (directory / name).write_text(create_key())
    public = subprocess.run(["ssh-keygen", "-y", "-f", directory / "key"], capture_output=True, text=True, check=True)
    (directory / "known").write_text(public.stdout)
    port = find_free_port()
    settings = {
        "ListenAddress": f"127.0.0.1:{port}",
        "HostKey": directory / "host",
        "AuthorizedKeysFile": directory / "known",
        "StrictModes": "no",  # the directory is a temporary one
        "UsePAM": "no",
        "PermitRootLogin": "yes",
        "PidFile": "none",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    process = subprocess.Popen([sshd, "-D", "-f", "/dev/null", *options], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: process.poll() is not None or is_sshd_ready(port), "sshd")
        yield port
    finally:
        process.terminate()
        process.wait(10)


def is_sshd_ready(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as connection:
        return connection.recv(4) == b"SSH-"


class SshTerminal:
    """A terminal of `ssh -tt`."""

    def __init__(self, directory, port):
        options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "BatchMode=yes"]
        words = [word for option in options for word in ("-o", option)]
        command = ["ssh", "-tt", "-F", "/dev/null", *words, "-i", directory / "key", "-p", str(port), "127.0.0.1"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def type(self, text):
        self.process.stdin.write(text)

    def read(self):
        return os.read(self.process.stdout.fileno(), console_peers.BLOCK_BYTES)

    def close(self):
        self.process.terminate()
        self.process.communicate()


class BrowserTerminal:
    """A shell in the browser."""

    def __init__(self, directory, path, port):
        client_socket, server_socket = console_client.socket_pair()
        client_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        key = (directory / "key").read_text()
        target = {"host": "127.0.0.1", "port": port, "user": getpass.getuser(), "private_key": key}
        note = {"kind": "shell", "id": "bench", "target": target}
        note["handshake"] = {"key": console_client.WEBSOCKET_KEY, "protocols": ["panel-shell"]}
        with server_socket, ipc.connect(path, 5) as connection:
            ipc.send(connection, {"command": "open", **note}, server_socket.fileno())
            assert ipc.receive(connection) == {"ok": True}
            ipc.send(connection, {"command": "start"})
        self.browser = console_client.ConsoleClient(client_socket)
        assert self.browser.read_response() == 101

    def type(self, text):
        self.browser.send(text)

    def read(self, speed=None):
        opcode, data = self.browser.receive()
        if opcode == TEXT:
            return b""
        if speed:
            time.sleep(len(data) / speed)
        self.browser.send(json.dumps({"type": "seen", "bytes": len(data)}).encode(), TEXT)
        return data

    def has_output(self, timeout):
        """Return whether output arrives within the timeout."""
        ready = self.browser.buffer or select.select([self.browser.connection], [], [], timeout)[0]
        return bool(ready)

    def close(self):
        self.browser.connection.close()


# --- measures


def measure_output(report, text, *makers):
    """Measure from the input of the command to its last line, with new terminals each round."""
    ratios, best = [], [0, 0]
    for number in range(ROUNDS):
        speeds = [0, 0]
        for which, make in list(enumerate(makers))[:: 1 if number % 2 else -1]:
            terminal = make()
            wait_until_idle(terminal)
            start = time.perf_counter()
            terminal.type(b"cat %s; echo d''one\r" % bytes(text))
            count = read_until(terminal, b"done\r\n")
            assert count > OUTPUT_MEGABYTES * 1_000_000, count
            speeds[which] = count / (time.perf_counter() - start) / 1e6
            best[which] = max(best[which], speeds[which])
            terminal.close()
        ratios.append(speeds[1] / speeds[0])
    print(
        f"shell: ssh -tt {best[0]:.0f} MB/s, console {best[1]:.0f} MB/s at best; {describe_quartiles(ratios)}",
        flush=True,
    )
    report(f"{OUTPUT_MEGABYTES} MB of a shell's output, against ssh -tt", statistics.median(ratios), minimum=0.5)


def wait_until_idle(terminal):
    terminal.type(b"PS1=; stty -echo; echo rea''dy\r")
    read_until(terminal, b"ready\r\n")


def read_until(terminal, text):
    """Read until the word. Return the number of bytes."""
    count, last = 0, b""
    while text not in last:
        data = terminal.read()
        count += len(data)
        last = last[-len(text) :] + data
    return count


def measure_interrupt(terminal, speed):
    """Return the seconds from Ctrl-C to the last output."""
    wait_until_idle(terminal)
    terminal.type(b"yes\r")
    end = time.monotonic() + 3
    while time.monotonic() < end:
        terminal.read(speed)
    terminal.type(b"\3")
    pressed = last = time.monotonic()
    while terminal.has_output(QUIET_SECONDS):
        terminal.read(speed)
        last = time.monotonic()
    terminal.close()
    return last - pressed
