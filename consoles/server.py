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
from consoles.event_loop import Pump
from consoles.ssh_shell import Shell
from consoles.vnc import Screen, Target
from panel.core.errors import Problem

log = structlog.get_logger()

KINDS = {"screen": (Screen, Target), "shell": (Shell, ssh.Guest)}

PATIENCE = 3
"""Seconds for each step of an order."""

MOST = 1000
"""Consoles of a process, which is what one thread carries with ease."""

GOODBYE = 5
"""Seconds browsers have to hear that the process stops."""


class Refused(Exception):
    """An order that is not carried out: a word for programs, a sentence for people."""

    def __init__(self, reason, message):
        super().__init__(message)
        self.answer = {"ok": False, "reason": reason, "message": message}


class Consoles:
    def __init__(self, path, report=None, pump=None, most=MOST, find=None):
        self.path, self.most, self.find = Path(path), most, find
        self.report = report or (lambda facts: log.info("console_" + facts.pop("event"), **facts))
        self.pump = pump or Pump()
        self.lock = threading.Lock()
        self.lines = set()
        self.listener = listen(self.path)

    def start(self):
        self.pump.start()
        threading.Thread(target=self.serve, name="console-orders", daemon=True).start()

    def stop(self, within=GOODBYE):
        """Returns when every browser has heard that the panel restarts, at most `within` seconds later."""
        self.path.unlink(missing_ok=True)
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.pump.stop(close_codes.RESTARTING, within)
        self.pump.join(within + 1)

    def serve(self):
        while True:
            try:
                caller, _ = self.listener.accept()
            except OSError:  # it was closed
                return
            threading.Thread(target=self.obey, args=(caller,), name="console-order", daemon=True).start()

    def obey(self, caller):
        with caller:
            caller.settimeout(PATIENCE)
            try:
                if not trusted(caller):
                    return
                order, descriptor = ipc.hear_order(caller)
                with socket.socket(fileno=descriptor) if descriptor is not None else nullcontext() as connection:
                    answer = self.answer(caller, order, connection)
                if answer is not None:
                    ipc.say(caller, answer)
            except (OSError, ValueError) as error:
                log.warning("console_order_failed", error=str(error))

    def answer(self, caller, order, connection):
        try:
            match order:
                case {"do": "open"} if connection:
                    return self.open(caller, order, connection)  # which has answered
                case {"do": "list"}:
                    return {"open": [facts(line) for line in self.now()]}
                case {"do": "close", "where": {**where}, "because": str(sentence)} if where:
                    return {"closed": self.close(where, close_codes.CLOSED.saying(sentence))}
            raise Refused("order", "The console process does not know this order.")
        except Refused as refusal:
            return refusal.answer

    def now(self):
        with self.lock:
            return list(self.lines)

    def close(self, where, ending):
        """Closes the consoles with these labels; returns how many there are."""
        chosen = [line for line in self.now() if where.items() <= line.labels.items()]
        for line in chosen:
            self.pump.call(line.end, ending)
        return len(chosen)

    def open(self, caller, order, connection):
        """Two steps, so that at any moment one process knows that the connection is its own."""
        line = self.line(order, connection)
        self.admit(line, order.get("limits", {}))
        try:
            ipc.say(caller, {"ok": True})
            if ipc.hear(caller) != {"do": "go"}:
                raise ValueError("The web did not let go.")
        except Exception:
            self.leave(line)
            raise
        line.connection = socket.socket(fileno=connection.detach())
        try:
            if line.target is None:
                line.target = KINDS[line.kind][1](**self.find(order["id"]))
            line.prepare()
        except Problem as problem:
            line.ending = close_codes.UNREACHABLE.saying(problem.message)
        self.pump.add(line)

    def line(self, order, connection):
        try:
            make, target = KINDS[order["kind"]]
            handshake = {name: order["handshake"][name] for name in ("key", "protocols")}
            more = {name: order[name] for name in ("idle", "longest") if name in order}
            more |= {"labels": {**order.get("labels", {}), "session": order["id"]}}
            more |= {"opened": self.opened, "ended": self.ended}
            known = target(**order["target"]) if self.find is None else None
            return make(connection, handshake, known, **more)
        except (KeyError, TypeError) as error:
            raise Refused("order", f"The console process does not understand the order: {error!r}.") from error

    def admit(self, line, limits):
        with self.lock:
            if len(self.lines) >= self.most:
                raise Refused("busy", "Too many consoles are open on this server. Close one, or try again later.")
            for label, most in limits.items():
                if sum(other.labels.get(label) == line.labels.get(label) for other in self.lines) >= most:
                    raise Refused("busy", f"{most} consoles of the same {label} are open already. Close one of them.")
            self.lines.add(line)

    def leave(self, line):
        with self.lock:
            self.lines.discard(line)

    def opened(self, line):
        self.report({"event": "opened", **facts(line)})

    def ended(self, line):
        self.leave(line)
        told = {"reason": line.ending.word, "message": line.ending.sentence}
        self.report({"event": "ended", **facts(line), **told})


def facts(line):
    """What is known of a console. `seconds` since the connection came, `watched` since the machine was seen."""
    now = time.monotonic()
    return {
        "kind": line.kind,
        "labels": line.labels,
        "seconds": round(now - line.born, 1),
        "watched": round(now - line.opened_at, 1) if line.opened_at else None,
        "bytes_in": line.up,
        "bytes_out": line.down,
        "host_key": getattr(line, "host_key", None),
    }


def trusted(caller):
    """Only this user, and root, give orders."""
    credentials = caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[1] in (0, os.getuid())


def listen(path):
    """A socket only this user may open. One that a dead process left behind is replaced, a living one is not."""
    with suppress(OSError):
        ipc.call(path, PATIENCE).close()
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
    consoles = Consoles(path, report=records and records.report, find=records and records.find)
    consoles.start()
    if records:
        records.start(consoles)
    log.info("consoles_started", path=str(path))
    while not asked.wait(1):
        if not consoles.pump.is_alive():
            raise SystemExit("The console process lost its pump.")
    log.info("consoles_finish", open=len(consoles.lines))
    consoles.stop()
    if records:
        records.stop()
