"""Shells, through the real console process to a real sshd, against `ssh -tt` to the same.

Targets (the design's): 50 MB of output at least half as fast as with `ssh -tt`; Ctrl-C into a flood is quiet within
half a second, also for a terminal that draws 2 MB/s. The browser here says what it has drawn, as the page does.

Needs Debian's openssh-server, of which it starts one for itself; `make` does not install it, for Debian starts another
for everybody.
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
from tests.bench import stage
from tests.bench.consoles import describe_spread
from tests.processes.conftest import find_free_port, wait_until
from tests.support import console_client
from tests.support.console_client import TEXT
from tests.support.ssh_guest import new_key

ROUNDS, MEGABYTES = 7, 50
FLOODS, QUIET = 5, 1.0
QUICK = {"ROUNDS": 2, "MEGABYTES": 1, "FLOODS": 1}
SLOW = 2e6
"""Bytes a second."""


def bench(report):
    sshd = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")
    if sshd is None:
        print("not measured: shells, because there is no sshd (apt install openssh-server)", flush=True)
        return
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = stack.enter_context(serving(sshd, directory))
        text = directory / "text"
        text.write_bytes(b"".join(b"%079d\n" % number for number in range(MEGABYTES * 1000000 // 80)))
        path = directory / "consoles.sock"
        stack.enter_context(stage.BenchProcess(path, module="consoles", ready=path.exists))
        output(report, text, lambda: SshTerminal(directory, port), lambda: BrowserTerminal(directory, path, port))
        for name, speed in (("", None), (" that draws slowly", SLOW)):
            taken = [until_quiet(BrowserTerminal(directory, path, port), speed) for _ in range(FLOODS)]
            print(f"Ctrl-C in a terminal{name}: median {statistics.median(taken):.2f} s", flush=True)
            report(f"Ctrl-C into a flood is quiet, in a terminal{name}, within", max(taken), 0.5, unit=" s")


@contextlib.contextmanager
def serving(sshd, directory):
    """An sshd that lets this user in, with one key. Yields its port."""
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    for name in ("host", "key"):
        (directory / name).touch(mode=0o600)
        (directory / name).write_text(new_key())
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
    words = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    process = subprocess.Popen([sshd, "-D", "-f", "/dev/null", *words], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: process.poll() is not None or answers(port), "sshd")
        yield port
    finally:
        process.terminate()
        process.wait(10)


def answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as connection:
        return connection.recv(4) == b"SSH-"


class SshTerminal:
    """`ssh -tt`."""

    def __init__(self, directory, port):
        options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "BatchMode=yes"]
        words = [word for option in options for word in ("-o", option)]
        command = ["ssh", "-tt", "-F", "/dev/null", *words, "-i", directory / "key", "-p", str(port), "127.0.0.1"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def type(self, text):
        self.process.stdin.write(text)

    def read(self):
        return os.read(self.process.stdout.fileno(), stage.BLOCK)

    def close(self):
        self.process.terminate()
        self.process.communicate()


class BrowserTerminal:
    """A shell in the browser."""

    def __init__(self, directory, path, port):
        mine, other = console_client.socket_pair()
        mine.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        key = (directory / "key").read_text()
        target = {"host": "127.0.0.1", "port": port, "user": getpass.getuser(), "private_key": key}
        note = {"kind": "shell", "id": "bench", "target": target}
        note["handshake"] = {"key": console_client.WEBSOCKET_KEY, "protocols": ["panel-shell"]}
        with other, ipc.connect(path, 5) as line:
            ipc.send(line, {"do": "open", **note}, other.fileno())
            assert ipc.receive(line) == {"ok": True}
            ipc.send(line, {"do": "go"})
        self.browser = console_client.ConsoleClient(mine)
        assert self.browser.hear_answer() == 101

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

    def more(self, within):
        """Whether something comes."""
        ready = self.browser.buffer or select.select([self.browser.connection], [], [], within)[0]
        return bool(ready)

    def close(self):
        self.browser.connection.close()


# --- measures


def output(report, text, *makers):
    """From typing the command to its last line; new terminals each round."""
    ratios, best = [], [0, 0]
    for number in range(ROUNDS):
        speeds = [0, 0]
        for which, make in list(enumerate(makers))[:: 1 if number % 2 else -1]:
            terminal = make()
            wait_until_idle(terminal)
            began = time.perf_counter()
            terminal.type(b"cat %s; echo d''one\r" % bytes(text))
            count = reads_to(terminal, b"done\r\n")
            assert count > MEGABYTES * 1_000_000, count
            speeds[which] = count / (time.perf_counter() - began) / 1e6
            best[which] = max(best[which], speeds[which])
            terminal.close()
        ratios.append(speeds[1] / speeds[0])
    print(
        f"shell: ssh -tt {best[0]:.0f} MB/s, console {best[1]:.0f} MB/s at best; {describe_spread(ratios)}", flush=True
    )
    report(f"{MEGABYTES} MB of a shell's output, against ssh -tt", statistics.median(ratios), minimum=0.5)


def wait_until_idle(terminal):
    terminal.type(b"PS1=; stty -echo; echo rea''dy\r")
    reads_to(terminal, b"ready\r\n")


def reads_to(terminal, word):
    """Reads until that word; how many bytes it were."""
    count, last = 0, b""
    while word not in last:
        data = terminal.read()
        count += len(data)
        last = last[-len(word) :] + data
    return count


def until_quiet(terminal, speed):
    """Seconds from Ctrl-C to the last output."""
    wait_until_idle(terminal)
    terminal.type(b"yes\r")
    end = time.monotonic() + 3
    while time.monotonic() < end:
        terminal.read(speed)
    terminal.type(b"\3")
    pressed = last = time.monotonic()
    while terminal.more(QUIET):
        terminal.read(speed)
        last = time.monotonic()
    terminal.close()
    return last - pressed
