"""The console server: takes connections from the web processes of its machine and carries them until they end.

Commands come over a Unix socket that only this user may open (`ipc`). `open` brings a connection and a note:

* `kind`: `screen` or `shell`; `target`: the fields of `vnc.VncTarget` or `ssh.SshTarget`, unless `find` provides them;
* `handshake`: what is needed to answer the browser (`fd_passing.read_handshake`);
* `id`: the id of the session's row, not its secret; `labels`: whose it is, such as `{"instance": "…", "account": "…"}`;
* `limits`: how many consoles may be open with the same value of a label, such as `{"account": 10}`;
* `idle` and `longest`: seconds.

Accepted notes are answered `{"ok": true}`, and the connection is used only after the web's `{"do": "go"}`. `list`
answers `{"open": […]}`. `close` with `where` (labels that must all be equal; the id is the label `session`) and the
sentence `because` answers `{"closed": number}`.

`records` (`session_store`) finds the target of a session (`find(id)`) and records what happens (`report(facts)`, which
must return at once) as `{"event": "opened" or "ended", …}`.
"""

import os
import resource
import signal
import socket
import stat
import struct
import threading
import time
from contextlib import nullcontext, suppress
from pathlib import Path

import structlog

from consoles import close_codes, ipc, ssh
from consoles.event_loop import EventLoop
from consoles.ssh_shell import SshConsole
from consoles.vnc import VncConsole, VncTarget
from panel.core.errors import Problem
from panel.core.messages import message

log = structlog.get_logger()

CONSOLE_KINDS = {"screen": (VncConsole, VncTarget), "shell": (SshConsole, ssh.SshTarget)}

COMMAND_TIMEOUT_SECONDS = 3
"""Seconds for each step of a command."""

MAX_CONSOLES = 1000
"""Consoles of a process, a number that one thread serves easily."""

CLIENT_GOODBYE_SECONDS = 5
"""Seconds browsers have to answer the close when the process stops."""


class CommandRefused(Exception):
    """A command that is not carried out: `reason` is a word for programs, `message` a sentence for people."""

    def __init__(self, reason, message):
        super().__init__(message)
        self.answer = {"ok": False, "reason": reason, "message": message}


class ConsoleServer:
    def __init__(self, path, report=None, event_loop=None, max_consoles=MAX_CONSOLES, find=None):
        self.path, self.max_consoles, self.find = Path(path), max_consoles, find
        self.report = report or (lambda facts: log.info("console_" + facts.pop("event"), **facts))
        self.event_loop = event_loop or EventLoop()
        self.lock = threading.Lock()
        self.lines = set()
        self.listener = create_listener(self.path)

    def start(self):
        self.event_loop.start()
        threading.Thread(target=self.serve, name="console-orders", daemon=True).start()

    def stop(self, within=CLIENT_GOODBYE_SECONDS):
        """Close every console because the panel restarts. Returns after at most about `within` seconds."""
        self.path.unlink(missing_ok=True)
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.event_loop.stop(close_codes.RESTARTING, within)
        self.event_loop.join(within + 1)

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:  # it was closed
                return
            threading.Thread(target=self.handle_command, args=(client,), name="console-order", daemon=True).start()

    def handle_command(self, client):
        with client:
            client.settimeout(COMMAND_TIMEOUT_SECONDS)
            try:
                if not is_trusted(client):
                    return
                command, descriptor = ipc.receive_command(client)
                with socket.socket(fileno=descriptor) if descriptor is not None else nullcontext() as connection:
                    answer = self.answer(client, command, connection)
                if answer is not None:
                    ipc.send(client, answer)
            except (OSError, ValueError) as error:
                log.warning("console_command_failed", error=str(error))

    def answer(self, client, command, connection):
        try:
            match command:
                case {"do": "open"} if connection:
                    return self.open(client, command, connection)  # which has answered
                case {"do": "list"}:
                    return {"open": [describe_stream(stream) for stream in self.now()]}
                case {"do": "close", "where": {**where}, "because": str(sentence)} if where:
                    return {"closed": self.close(where, close_codes.CLOSED.with_message(sentence))}
            raise CommandRefused("order", message("The console process does not know this order."))
        except CommandRefused as refusal:
            return refusal.answer

    def now(self):
        with self.lock:
            return list(self.lines)

    def close(self, labels, close_reason):
        """Close the consoles with these labels; return how many there are."""
        streams = [stream for stream in self.now() if labels.items() <= stream.labels.items()]
        for stream in streams:
            self.event_loop.call(stream.end, close_reason)
        return len(streams)

    def open(self, client, command, connection):
        """Accept a connection in two steps, so that at any moment exactly one process owns it."""
        stream = self.line(command, connection)
        self.admit(stream, command.get("limits", {}))
        try:
            ipc.send(client, {"ok": True})
            if ipc.receive(client) != {"do": "go"}:
                raise ValueError("The web did not let go.")
        except Exception:
            self.leave(stream)
            raise
        stream.connection = socket.socket(fileno=connection.detach())
        try:
            if stream.target is None:
                stream.target = CONSOLE_KINDS[stream.kind][1](**self.find(command["id"]))
            stream.prepare()
        except Problem as problem:
            stream.close_reason = close_codes.UNREACHABLE.with_message(problem.message)
        self.event_loop.add(stream)

    def line(self, command, connection):
        try:
            stream_class, target_class = CONSOLE_KINDS[command["kind"]]
            handshake = {name: command["handshake"][name] for name in ("key", "protocols")}
            options = {name: command[name] for name in ("idle", "longest") if name in command}
            options |= {"labels": {**command.get("labels", {}), "session": command["id"]}}
            options |= {"opened": self.opened, "ended": self.ended}
            target = target_class(**command["target"]) if self.find is None else None
            return stream_class(connection, handshake, target, **options)
        except (KeyError, TypeError) as error:
            raise CommandRefused(
                "order", message("The console process does not understand the order: {error}.", error=repr(error))
            ) from error

    def admit(self, stream, limits):
        with self.lock:
            if len(self.lines) >= self.max_consoles:
                raise CommandRefused(
                    "busy", message("Too many consoles are open on this server. Close one, or try again later.")
                )
            for label, maximum in limits.items():
                if sum(other.labels.get(label) == stream.labels.get(label) for other in self.lines) >= maximum:
                    raise CommandRefused(
                        "busy",
                        message(
                            "{maximum} consoles of the same {label} are open already. Close one of them.",
                            maximum=maximum,
                            label=label,
                        ),
                    )
            self.lines.add(stream)

    def leave(self, stream):
        with self.lock:
            self.lines.discard(stream)

    def opened(self, stream):
        self.report({"event": "opened", **describe_stream(stream)})

    def ended(self, stream):
        self.leave(stream)
        outcome = {"reason": stream.close_reason.word, "message": stream.close_reason.sentence}
        self.report({"event": "ended", **describe_stream(stream), **outcome})


def describe_stream(stream):
    """Return the facts of a console. `seconds`: since the connection arrived; `watched`: since the machine was
    shown."""
    now = time.monotonic()
    return {
        "kind": stream.kind,
        "labels": stream.labels,
        "seconds": round(now - stream.created_at, 1),
        "watched": round(now - stream.opened_at, 1) if stream.opened_at else None,
        "bytes_in": stream.up,
        "bytes_out": stream.down,
        "host_key": getattr(stream, "host_key", None),
    }


def is_trusted(client):
    """Return whether the client runs as this user or as root."""
    credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[1] in (0, os.getuid())


def create_listener(path):
    """Return a listening socket that only this user may open. The socket file of a dead process is replaced; SystemExit
    when a console server listens there already."""
    with suppress(OSError):
        ipc.connect(path, COMMAND_TIMEOUT_SECONDS).close()
        raise SystemExit(f"A console process listens on {path} already.")
    if path.exists() and stat.S_ISSOCK(path.stat().st_mode):
        path.unlink()
    listener = socket.socket(socket.AF_UNIX)
    previous_umask = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(previous_umask)
    listener.listen(128)
    return listener


def run(path, records=None):
    """Serve consoles until SIGTERM or Ctrl-C."""
    _, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, maximum))
    stop_requested = threading.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda *_: stop_requested.set())
    consoles = ConsoleServer(path, report=records and records.report, find=records and records.find)
    consoles.start()
    if records:
        records.start(consoles)
    log.info("consoles_started", path=str(path))
    while not stop_requested.wait(1):
        if not consoles.event_loop.is_alive():
            raise SystemExit("The console process lost its pump.")
    log.info("consoles_draining", open=len(consoles.lines))
    consoles.stop()
    if records:
        records.stop()
