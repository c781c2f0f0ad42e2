"""The console process: takes connections from the web processes of its machine and carries them to their end.

Orders come over a Unix socket that only this user may open (wire.py). `open` brings a connection and a note:

* `kind`: `screen` or `shell`; `target`: the fields of `screen.Target` or `ssh.Guest`, unless `find` knows them;
* `handshake`: what the browser is to be answered (`handoff.handshake`);
* `id`: the session's row, not its secret; `labels`: whose it is, like `{"instance": "…", "account": "…"}`;
* `limits`: how many consoles may be open with the same value of a label, like `{"account": 10}`;
* `idle` and `longest`: seconds.

Accepted notes are answered `{"ok": true}`, and the connection is touched only after the web's `{"do": "go"}`. `list`
answers `{"open": […]}`. `close` with `where` (labels that must all be equal; an id is the label `session`) and the
sentence `because` answers `{"closed": number}`.

`records` (records.py) is asked where a session leads (`find(id)`), and told what happens (`report(facts)`, which must
return at once) as `{"event": "opened" or "ended", …}`.
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

log = structlog.get_logger()

CONSOLE_KINDS = {"screen": (VncConsole, VncTarget), "shell": (SshConsole, ssh.SshTarget)}

COMMAND_TIMEOUT_SECONDS = 3
"""Seconds for each step of an order."""

MAX_CONSOLES = 1000
"""Consoles of a process, which is what one thread carries with ease."""

CLIENT_GOODBYE_SECONDS = 5
"""Seconds browsers have to hear that the process stops."""


class CommandRefused(Exception):
    """An order that is not carried out: a word for programs, a sentence for people."""

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
        """Returns when every browser has heard that the panel restarts, at most `within` seconds later."""
        self.path.unlink(missing_ok=True)
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.event_loop.stop(close_codes.RESTARTING, within)
        self.event_loop.join(within + 1)

    def serve(self):
        while True:
            try:
                caller, _ = self.listener.accept()
            except OSError:  # it was closed
                return
            threading.Thread(target=self.handle_command, args=(caller,), name="console-order", daemon=True).start()

    def handle_command(self, caller):
        with caller:
            caller.settimeout(COMMAND_TIMEOUT_SECONDS)
            try:
                if not is_trusted(caller):
                    return
                order, descriptor = ipc.receive_command(caller)
                with socket.socket(fileno=descriptor) if descriptor is not None else nullcontext() as connection:
                    answer = self.answer(caller, order, connection)
                if answer is not None:
                    ipc.send(caller, answer)
            except (OSError, ValueError) as error:
                log.warning("console_order_failed", error=str(error))

    def answer(self, caller, order, connection):
        try:
            match order:
                case {"do": "open"} if connection:
                    return self.open(caller, order, connection)  # which has answered
                case {"do": "list"}:
                    return {"open": [describe_stream(line) for line in self.now()]}
                case {"do": "close", "where": {**where}, "because": str(sentence)} if where:
                    return {"closed": self.close(where, close_codes.CLOSED.with_message(sentence))}
            raise CommandRefused("order", "The console process does not know this order.")
        except CommandRefused as refusal:
            return refusal.answer

    def now(self):
        with self.lock:
            return list(self.lines)

    def close(self, where, ending):
        """Closes the consoles with these labels; returns how many there are."""
        chosen = [line for line in self.now() if where.items() <= line.labels.items()]
        for line in chosen:
            self.event_loop.call(line.end, ending)
        return len(chosen)

    def open(self, caller, order, connection):
        """Two steps, so that at any moment one process knows that the connection is its own."""
        line = self.line(order, connection)
        self.admit(line, order.get("limits", {}))
        try:
            ipc.send(caller, {"ok": True})
            if ipc.receive(caller) != {"do": "go"}:
                raise ValueError("The web did not let go.")
        except Exception:
            self.leave(line)
            raise
        line.connection = socket.socket(fileno=connection.detach())
        try:
            if line.target is None:
                line.target = CONSOLE_KINDS[line.kind][1](**self.find(order["id"]))
            line.prepare()
        except Problem as problem:
            line.close_reason = close_codes.UNREACHABLE.with_message(problem.message)
        self.event_loop.add(line)

    def line(self, order, connection):
        try:
            make, target = CONSOLE_KINDS[order["kind"]]
            handshake = {name: order["handshake"][name] for name in ("key", "protocols")}
            more = {name: order[name] for name in ("idle", "longest") if name in order}
            more |= {"labels": {**order.get("labels", {}), "session": order["id"]}}
            more |= {"opened": self.opened, "ended": self.ended}
            known = target(**order["target"]) if self.find is None else None
            return make(connection, handshake, known, **more)
        except (KeyError, TypeError) as error:
            raise CommandRefused("order", f"The console process does not understand the order: {error!r}.") from error

    def admit(self, line, limits):
        with self.lock:
            if len(self.lines) >= self.max_consoles:
                raise CommandRefused(
                    "busy", "Too many consoles are open on this server. Close one, or try again later."
                )
            for label, most in limits.items():
                if sum(other.labels.get(label) == line.labels.get(label) for other in self.lines) >= most:
                    raise CommandRefused(
                        "busy", f"{most} consoles of the same {label} are open already. Close one of them."
                    )
            self.lines.add(line)

    def leave(self, line):
        with self.lock:
            self.lines.discard(line)

    def opened(self, line):
        self.report({"event": "opened", **describe_stream(line)})

    def ended(self, line):
        self.leave(line)
        told = {"reason": line.close_reason.word, "message": line.close_reason.sentence}
        self.report({"event": "ended", **describe_stream(line), **told})


def describe_stream(line):
    """What is known of a console. `seconds` since the connection came, `watched` since the machine was seen."""
    now = time.monotonic()
    return {
        "kind": line.kind,
        "labels": line.labels,
        "seconds": round(now - line.created_at, 1),
        "watched": round(now - line.opened_at, 1) if line.opened_at else None,
        "bytes_in": line.up,
        "bytes_out": line.down,
        "host_key": getattr(line, "host_key", None),
    }


def is_trusted(caller):
    """Only this user, and root, give orders."""
    credentials = caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[1] in (0, os.getuid())


def create_listener(path):
    """A socket only this user may open. One that a dead process left behind is replaced, a living one is not."""
    with suppress(OSError):
        ipc.connect(path, COMMAND_TIMEOUT_SECONDS).close()
        raise SystemExit(f"A console process listens on {path} already.")
    if path.exists() and stat.S_ISSOCK(path.stat().st_mode):
        path.unlink()
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    listener.listen(128)
    return listener


def run(path, records=None):
    """Carries consoles until SIGTERM or Ctrl-C."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asked = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: asked.set())
    consoles = ConsoleServer(path, report=records and records.report, find=records and records.find)
    consoles.start()
    if records:
        records.start(consoles)
    log.info("consoles_started", path=str(path))
    while not asked.wait(1):
        if not consoles.event_loop.is_alive():
            raise SystemExit("The console process lost its pump.")
    log.info("consoles_finish", open=len(consoles.lines))
    consoles.stop()
    if records:
        records.stop()
