"""The console server: receives connections from the web processes of its machine and relays them until they end.

Commands come over a Unix socket that only this user may open (`ipc`). `open` brings a connection and a note:

* `kind`: `screen` or `shell`; `target`: the fields of `vnc.VncTarget` or `ssh.SshTarget`, unless `find_target` returns
  them;
* `handshake`: what is needed to answer the browser (`fd_passing.read_handshake`);
* `id`: the id of the session's row, not its secret; `labels`: whose it is, such as `{"instance": "…", "account": "…"}`;
* `limits`: how many consoles may be open with the same value of a label, such as `{"account": 10}`;
* `idle_timeout_seconds` and `max_duration_seconds`.

`open_events` brings a connection whose browser gets the changes that its session may see (`live_updates`): `session`,
the id of the browser session, and `since`, the time (ms) from which on.

Accepted notes are answered `{"ok": true}`, and the connection is used only after the web's `{"command": "start"}`.
`list` answers `{"open": […]}`. `close` with `where` (labels that must all be equal; the id is the label `session`) and
the message `reason` answers `{"closed": number}`.

A `session_store.SessionStore` finds the target of a session (`find_target(id)`) and records what happens
(`add_report(report)`, which returns at once) as `{"event": "opened" or "ended", …}`.
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

STOP_TIMEOUT_SECONDS = 5
"""Seconds browsers have to answer the close when the process stops."""


class CommandRefused(Exception):
    """A command that is not carried out: `reason` is for programs, `message` for people."""

    def __init__(self, reason, message):
        super().__init__(message)
        self.answer = {"ok": False, "reason": reason, "message": message}


class ConsoleServer:
    def __init__(self, path, on_report=None, event_loop=None, max_consoles=MAX_CONSOLES, find_target=None, live=None):
        self.path, self.max_consoles, self.find_target, self.live = Path(path), max_consoles, find_target, live
        self.on_report = on_report or (lambda report: log.info("console_" + report.pop("event"), **report))
        self.event_loop = event_loop or EventLoop()
        self.lock = threading.Lock()
        self.streams = set()
        self.listener = create_listener(self.path)

    def start(self):
        self.event_loop.start()
        threading.Thread(target=self.serve, name="console-commands", daemon=True).start()

    def stop(self, timeout_seconds=STOP_TIMEOUT_SECONDS):
        """Close every console because the panel restarts. Returns after at most `timeout_seconds` and a second."""
        self.path.unlink(missing_ok=True)
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.event_loop.stop(close_codes.RESTARTING, timeout_seconds)
        self.event_loop.join(timeout_seconds + 1)

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:  # it was closed
                return
            threading.Thread(target=self.handle_command, args=(client,), name="console-command", daemon=True).start()

    def handle_command(self, client):
        with client:
            client.settimeout(COMMAND_TIMEOUT_SECONDS)
            try:
                if not is_trusted(client):
                    return
                command, descriptor = ipc.receive_command(client)
                with socket.socket(fileno=descriptor) if descriptor is not None else nullcontext() as connection:
                    answer = self.run_command(client, command, connection)
                if answer is not None:
                    ipc.send(client, answer)
            except (OSError, ValueError) as error:
                log.warning("console_command_failed", error=str(error))

    def run_command(self, client, command, connection):
        try:
            match command:
                case {"command": "open"} if connection:
                    return self.open_stream(client, command, connection)  # which has answered
                case {"command": "open_events", "session": str(session_id), "since": int(since)} if connection:
                    return self.open_event_stream(client, connection, session_id, since)
                case {"command": "list"}:
                    return {"open": [describe_stream(stream) for stream in self.list_streams()]}
                case {"command": "close", "where": {**where}, "reason": str(reason)} if where:
                    return {"closed": self.close_streams(where, close_codes.CLOSED.with_message(reason))}
            raise CommandRefused("invalid_command", message("The console process does not know this command."))
        except CommandRefused as refusal:
            return refusal.answer

    def list_streams(self):
        with self.lock:
            return list(self.streams)

    def close_streams(self, labels, close_reason):
        """Close the consoles with these labels; return how many there are."""
        streams = [stream for stream in self.list_streams() if labels.items() <= stream.labels.items()]
        for stream in streams:
            self.event_loop.call_soon(stream.close, close_reason)
        return len(streams)

    def open_stream(self, client, command, connection):
        """Accept a connection in two steps, so that at any moment exactly one process owns it."""
        stream = self.build_stream(command, connection)
        self.register_stream(stream, command.get("limits", {}))
        try:
            confirm(client)
        except Exception:
            self.remove_stream(stream)
            raise
        stream.connection = socket.socket(fileno=connection.detach())
        try:
            if stream.target is None:
                stream.target = CONSOLE_KINDS[stream.kind][1](**self.find_target(command["id"]))
            stream.prepare_upstream()
        except Problem as problem:
            stream.close_reason = close_codes.UNREACHABLE.with_message(problem.message)
        self.event_loop.add_stream(stream)

    def open_event_stream(self, client, connection, session_id, since):
        """Accept a connection like `open_stream`."""
        if self.live is None or self.live.find_refusal(session_id):
            raise CommandRefused("busy", message("Changes are not sent at the moment."))
        confirm(client)
        self.live.add_stream(connection, session_id, since)

    def build_stream(self, command, connection):
        try:
            stream_class, target_class = CONSOLE_KINDS[command["kind"]]
            handshake = {name: command["handshake"][name] for name in ("key", "protocols")}
            options = {
                name: command[name] for name in ("idle_timeout_seconds", "max_duration_seconds") if name in command
            }
            options |= {"labels": {**command.get("labels", {}), "session": command["id"]}}
            options |= {"on_opened": self.on_stream_opened, "on_closed": self.on_stream_closed}
            target = target_class(**command["target"]) if self.find_target is None else None
            return stream_class(connection, handshake, target, **options)
        except (KeyError, TypeError) as error:
            raise CommandRefused(
                "invalid_command",
                message("The console process does not understand the command: {error}.", error=repr(error)),
            ) from error

    def register_stream(self, stream, limits):
        with self.lock:
            if len(self.streams) >= self.max_consoles:
                raise CommandRefused(
                    "busy", message("Too many consoles are open on this server. Close one, or try again later.")
                )
            for label, maximum in limits.items():
                if sum(other.labels.get(label) == stream.labels.get(label) for other in self.streams) >= maximum:
                    raise CommandRefused(
                        "busy",
                        message(
                            "{maximum} consoles of the same {label} are open already. Close one of them.",
                            maximum=maximum,
                            label=label,
                        ),
                    )
            self.streams.add(stream)

    def remove_stream(self, stream):
        with self.lock:
            self.streams.discard(stream)

    def on_stream_opened(self, stream):
        self.on_report({"event": "opened", **describe_stream(stream)})

    def on_stream_closed(self, stream):
        self.remove_stream(stream)
        outcome = {"reason": stream.close_reason.name, "message": stream.close_reason.message}
        self.on_report({"event": "ended", **describe_stream(stream), **outcome})


def describe_stream(stream):
    """Return what is reported of a console. `seconds`: since the connection arrived; `open_seconds`: since the machine
    was shown."""
    now = time.monotonic()
    return {
        "kind": stream.kind,
        "labels": stream.labels,
        "seconds": round(now - stream.created_at, 1),
        "open_seconds": round(now - stream.opened_at, 1) if stream.opened_at else None,
        "bytes_in": stream.bytes_in,
        "bytes_out": stream.bytes_out,
        "host_key": getattr(stream, "host_key", None),
    }


def confirm(client):
    """Tell the web process that its connection is accepted, and wait until it has released it. Raise ValueError when it
    does not answer so."""
    ipc.send(client, {"ok": True})
    if ipc.receive(client) != {"command": "start"}:
        raise ValueError("The web process did not confirm that it released the connection.")


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


def run(path, session_store=None, live=None):
    """Serve consoles, and changes to browsers, until SIGTERM or Ctrl-C. `live` is a `live_updates.LiveUpdates`."""
    _, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, maximum))
    stop_requested = threading.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda *_: stop_requested.set())
    console_server = ConsoleServer(
        path,
        on_report=session_store and session_store.add_report,
        find_target=session_store and session_store.find_target,
        live=live,
    )
    if live:
        live.start()
    console_server.start()
    if session_store:
        session_store.start(console_server)
    log.info("consoles_started", path=str(path))
    while not stop_requested.wait(1):
        if not all(part.event_loop.is_alive() for part in (console_server, live) if part):
            raise SystemExit("The event loop of the console server has stopped.")
    log.info("consoles_draining", open=len(console_server.streams))
    if live:
        live.stop()
    console_server.stop()
    if session_store:
        session_store.stop()
