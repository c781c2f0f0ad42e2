"""The way to a screen that only its node reaches: `ssh -W` of the system's OpenSSH, as libvirt's qemu+ssh goes.

So the same keys, known hosts and settings count: those of the user that runs the console process. One process for each
console; what it sends and takes goes through a socket like any other.
"""

import os
import re
import socket
import subprocess
from select import EPOLLIN
from urllib.parse import parse_qs, unquote, urlsplit

CONNECT_TIMEOUT_SECONDS = 8
"""Seconds within which the node's SSH server must answer the call."""

SSH_OPTIONS = {
    "BatchMode": "yes",  # nobody is there to answer a question
    "ConnectTimeout": CONNECT_TIMEOUT_SECONDS,
    "ServerAliveInterval": 15,
    "ServerAliveCountMax": 3,
    "ControlPath": "none",  # a connection of its own, which ends with the console
    "LogLevel": "INFO",
}

HOST_PATTERN = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9_.:-]*")
USER_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*")
"""Nothing that ssh takes for an option, and nothing that means something to a shell its settings may name."""

ERROR_MESSAGES = {
    "REMOTE HOST IDENTIFICATION HAS CHANGED": "The machine's host shows another SSH host key than before.",
    "Host key verification failed": "The panel does not know the SSH host key of the machine's host.",
    "Permission denied": "The machine's host does not accept the panel's SSH key.",
    "administratively prohibited": "The SSH server of the machine's host does not let the panel through to screens.",
    "open failed": "The machine's screen does not answer.",
}
"""By what ssh says: what the person before the console is told."""


class TunnelError(Exception):
    """There can be no tunnel; the text is a sentence for the person before the console."""


class Tunnel:
    """It is there at once; whether it leads anywhere is seen when something comes through or it has `ended`."""

    def __init__(self, via, host, port):
        words = build_command(via, host, port)
        try:
            self.upstream, theirs = socket.socketpair()
            self.words, errors = (os.fdopen(end, mode, 0) for end, mode in zip(os.pipe(), ("rb", "wb"), strict=True))
            with theirs, errors:
                self.process = subprocess.Popen(
                    words, stdin=theirs, stdout=theirs, stderr=errors, start_new_session=True
                )
            self.exit = os.pidfd_open(self.process.pid)
        except OSError as error:
            raise TunnelError("The panel cannot run the SSH program that leads to the machine's host.") from error
        self.upstream.setblocking(False)
        os.set_blocking(self.words.fileno(), False)

    def fileno(self):
        return self.exit

    def watch(self, pump, ended):
        """Calls `ended()` on the pump's thread when the process has ended, also by `end`. Only then it is gone."""

        def reap(event):
            pump.unregister(self)
            os.close(self.exit)
            self.process.wait()
            ended()

        pump.watch(self, EPOLLIN, reap)

    @property
    def ended(self):
        return self.process.returncode is not None

    @property
    def failed(self):
        return bool(self.process.returncode)

    def said(self):
        """What ssh had to say since the last time."""
        return (self.words.read(65536) or b"").decode(errors="replace").strip()

    def end(self):
        self.words.close()
        if not self.ended:
            self.process.kill()


def build_command(via, host, port):
    """Return the program and its arguments. Raises `TunnelError` for values that could be read as options."""
    try:
        target, port = urlsplit(via), int(port)
        node, node_port, user = target.hostname or "", target.port, unquote(target.username or "")
    except ValueError:
        node = ""
    if not (
        HOST_PATTERN.fullmatch(node) and HOST_PATTERN.fullmatch(host) and (not user or USER_PATTERN.fullmatch(user))
    ):
        raise TunnelError("The address of the machine's host is not valid.")
    keys = parse_qs(target.query).get("keyfile", [])[:1]
    return [
        *("ssh", "-W", f"[{host}]:{port}", "-T", "-a", "-x"),
        *(word for name, value in SSH_OPTIONS.items() for word in ("-o", f"{name}={value}")),
        *(("-p", str(node_port)) if node_port else ()),
        *(("-l", user) if user else ()),
        *(word for key in keys for word in ("-i", key)),
        *("--", node),
    ]


def find_message(said):
    """The sentence for what ssh said, or None."""
    return next((sentence for words, sentence in ERROR_MESSAGES.items() if words in said), None)
