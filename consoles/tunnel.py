"""The SSH tunnel to a screen that only its node reaches: `ssh -W` of the system's OpenSSH, as libvirt's qemu+ssh uses
it.

So the same keys, known hosts and settings apply: those of the user that runs the console server. Each console has one
process; its input and output are a socket like any other.
"""

import os
import re
import socket
import subprocess
from select import EPOLLIN
from urllib.parse import parse_qs, unquote, urlsplit

from panel.core.messages import message

CONNECT_TIMEOUT_SECONDS = 8
"""Seconds for the connection to the node's SSH server."""

SSH_OPTIONS = {
    "BatchMode": "yes",  # there is no terminal to ask on
    "ConnectTimeout": CONNECT_TIMEOUT_SECONDS,
    "ServerAliveInterval": 15,
    "ServerAliveCountMax": 3,
    "ControlPath": "none",  # no shared connection: this one ends with the console
    "LogLevel": "INFO",
}

HOST_PATTERN = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9_.:-]*")
USER_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*")
"""No value that ssh takes for an option, and no characters with a meaning for a shell that ssh's settings may run."""

ERROR_MESSAGES = {
    "REMOTE HOST IDENTIFICATION HAS CHANGED": message("The SSH host key of the hypervisor has changed."),
    "Host key verification failed": message("The panel does not know the SSH host key of the hypervisor."),
    "Permission denied": message("The hypervisor does not accept the panel's SSH key."),
    "administratively prohibited": message(
        "The SSH server of the hypervisor does not let the panel reach the VNC server."
    ),
    "open failed": message("The VNC server does not answer."),
}
"""Part of ssh's error output → the message for the user."""


class TunnelError(Exception):
    """The tunnel cannot be started; the text is a message for the user."""


class Tunnel:
    """A running ssh process. The constructor does not wait; whether the connection works shows when data arrives or
    when it `has_ended`."""

    def __init__(self, ssh_jump, host, port):
        command = build_command(ssh_jump, host, port)
        try:
            self.upstream, process_end = socket.socketpair()
            self.error_output, errors = (
                os.fdopen(fd, mode, 0) for fd, mode in zip(os.pipe(), ("rb", "wb"), strict=True)
            )
            with process_end, errors:
                self.process = subprocess.Popen(
                    command, stdin=process_end, stdout=process_end, stderr=errors, start_new_session=True
                )
            self.exit_fd = os.pidfd_open(self.process.pid)
        except OSError as error:
            raise TunnelError(
                message("The panel cannot run the SSH program for the connection to the hypervisor.")
            ) from error
        self.upstream.setblocking(False)
        os.set_blocking(self.error_output.fileno(), False)

    def fileno(self):
        return self.exit_fd

    def watch_exit(self, event_loop, on_exit):
        """Call `on_exit()` on the event loop's thread when the process has ended, also by `close`. It is reaped only
        then."""

        def reap(event):
            event_loop.unregister(self)
            os.close(self.exit_fd)
            self.process.wait()
            on_exit()

        event_loop.watch(self, EPOLLIN, reap)

    @property
    def has_ended(self):
        return self.process.returncode is not None

    @property
    def has_failed(self):
        return bool(self.process.returncode)

    def read_errors(self):
        """Return ssh's error output since the last call."""
        return (self.error_output.read(65536) or b"").decode(errors="replace").strip()

    def close(self):
        self.error_output.close()
        if not self.has_ended:
            self.process.kill()


def build_command(ssh_jump, host, port):
    """Return the program and its arguments. Raises `TunnelError` for values that could be read as options."""
    try:
        target, port = urlsplit(ssh_jump), int(port)
        node, node_port, user = target.hostname or "", target.port, unquote(target.username or "")
    except ValueError:
        node = ""
    if not (
        HOST_PATTERN.fullmatch(node) and HOST_PATTERN.fullmatch(host) and (not user or USER_PATTERN.fullmatch(user))
    ):
        raise TunnelError(message("The address of the hypervisor is not valid."))
    keys = parse_qs(target.query).get("keyfile", [])[:1]
    return [
        *("ssh", "-W", f"[{host}]:{port}", "-T", "-a", "-x"),
        *(argument for name, value in SSH_OPTIONS.items() for argument in ("-o", f"{name}={value}")),
        *(("-p", str(node_port)) if node_port else ()),
        *(("-l", user) if user else ()),
        *(argument for key in keys for argument in ("-i", key)),
        *("--", node),
    ]


def find_message(output):
    """Return the message for ssh's error output, or None."""
    return next((text for fragment, text in ERROR_MESSAGES.items() if fragment in output), None)
