"""A shell: the browser's terminal and a shell in the guest.

The pump carries the browser's side as it does for screens. paramiko waits, so the guest's side has two threads of its
own (`Guide`); a pair of packet sockets lies between, each packet being a kind and its data.

The browser offers the sub-protocol `panel-shell`. Then binary messages are the terminal's bytes, both ways, and text
messages are JSON objects with a `type`:

* from the browser `resize` (`columns`, `rows`), `seen` (`bytes` of output that were drawn): nothing else holds back a
  guest that prints faster than the terminal draws, for WebSockets take whatever comes; and `ping`, which pages cannot
  do with WebSockets themselves;
* from the panel `pong` (with all that was in the `ping`), `ready` (`fingerprint` of the guest's host key), `exit`
  (`code`, or null) and `ended` (`reason`, `message`), after which the WebSocket is closed.

A client that offers no sub-protocol is a plain terminal: all it sends is typed, all it gets is output.
"""

import base64
import hashlib
import select
import socket
import threading
import time
from contextlib import suppress

import orjson
import paramiko
import structlog

from consoles import close_codes, ssh
from consoles.browser import TEXT, Text
from consoles.close_codes import Ending
from consoles.session import Line

log = structlog.get_logger()

PIECE = 32768
INPUT, OUTPUT, CONTROL, HOST_KEY, READY, END = b"i", b"o", b"c", b"k", b"r", b"e"
"""Kinds of packets."""

WINDOW = 1 << 18
"""Bytes of output the browser may be behind with drawing."""

SOON = 0.2
"""Seconds after which input that the guest does not take counts as stuck."""

LARGEST = {"columns": 500, "rows": 300}

PING, PONG = b'{"type":"ping"', b'{"type":"pong"'
LONGEST_PING = 100
"""Bytes."""


class Shell(Line):
    kind = "shell"
    protocol = "panel-shell"
    takes_text = True
    host_key = None
    """What the guest showed, "type base64"."""

    def begin(self):
        self.far, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.far.setblocking(False)
        Guide(other, self.target, counts=self.speaks).start()

    @property
    def speaks(self):
        return self.browser.protocol == self.protocol

    def controls(self, message):
        return self.speaks and isinstance(message, Text)

    def uses(self, message):
        return not self.controls(message)

    def take(self, message):
        if message.startswith(PING) and self.controls(message):
            self.answer(message)
            return
        kind = CONTROL if self.controls(message) else INPUT
        if kind == CONTROL and len(message) > PIECE:
            self.end(close_codes.TOO_BIG)
            return
        for start in range(0, len(message), PIECE):
            self.send(kind + message[start : start + PIECE])

    def give(self, packet):
        kind, data = packet[:1], packet[1:]
        if kind == OUTPUT:
            self.show(data)
        elif kind == CONTROL:
            self.tell(data)
        elif kind == HOST_KEY:
            self.host_key = str(data, "ascii")
        elif kind == READY:
            self.ready()
            self.tell(orjson.dumps({"type": "ready", "fingerprint": fingerprint(self.host_key)}))
        elif kind == END:
            self.end(Ending(**orjson.loads(data)))

    def answer(self, ping):
        """Here, where no guest is waited for. Who asks and does not read gets nothing: it would pile up."""
        if len(ping) <= LONGEST_PING and not self.browser.unsent:
            self.tell(ping.replace(PING, PONG, 1))

    def tell(self, message):
        if self.speaks:
            self.browser.put(message, TEXT)

    def far_closed(self):
        self.end(close_codes.FAILED)  # a guide that ends says why

    def end(self, ending):
        if self.ending is None and not self.browser.gone:
            with suppress(OSError):  # `end` finds out too
                self.tell(orjson.dumps({"type": "ended", "reason": ending.word, "message": ending.sentence}))
        super().end(ending)


def fingerprint(host_key):
    digest = hashlib.sha256(base64.b64decode(host_key.split()[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


class Guide(threading.Thread):
    """Leads from the packets to the guest and back. `counts`: whether the browser says what it has drawn."""

    def __init__(self, packets, guest, counts):
        super().__init__(name="console-shell", daemon=True)
        self.packets, self.guest, self.counts = packets, guest, counts
        self.changed = threading.Condition()
        self.behind, self.stuck, self.over = 0, False, False

    def run(self):
        with self.packets:
            try:
                ending = self.lead()
            except ssh.Refusal as refusal:
                ending = refusal.ending
            except OSError:
                return  # the browser's side is gone
            except Exception:
                log.exception("console_shell_failed", host=self.guest.host)
                ending = close_codes.FAILED
            self.finish(ending)

    def lead(self):
        """From the first word to the guest to the end of the shell; returns how it ended."""
        transport = ssh.connect(self.guest, lambda key: self.packets.send(HOST_KEY + key.encode()))
        try:
            self.channel = ssh.terminal(transport)
            self.packets.send(READY)
            threading.Thread(target=self.listen, name="console-shell-input", daemon=True).start()
            return self.print(transport)
        finally:
            transport.close()

    def finish(self, ending):
        """The last packet, and then whatever still comes is read until the pump hangs up: closing earlier would make
        the kernel drop what the pump has not read yet."""
        facts = {"code": ending.code, "word": ending.word, "sentence": ending.sentence}
        with suppress(OSError):
            self.packets.send(END + orjson.dumps(facts))
            while self.packets.recv(PIECE):
                pass

    # --- from the guest

    def print(self, transport):
        """Passes output on until there is none; returns how it ended."""
        while data := self.channel.recv(PIECE):
            with self.changed:
                self.changed.wait_for(self.may_print)
                self.behind += len(data)
            self.packets.send(OUTPUT + data)
        self.channel.status_event.wait(2)  # it often comes just after the end of the output
        code = self.channel.exit_status
        if code < 0:  # a shell that was killed, or the whole guest: then the transport ends too, in a moment
            transport.join(0.5)
            if not transport.is_active():
                return close_codes.LOST
        self.packets.send(CONTROL + orjson.dumps({"type": "exit", "code": code if code >= 0 else None}))
        return close_codes.FINISHED.saying("The shell ended.")

    def may_print(self):
        """While the guest takes no input, what the browser has drawn is not heard of either, for that comes behind the
        input; and the guest may take none because nobody takes its output."""
        return self.over or self.stuck or not self.counts or self.behind < WINDOW

    # --- from the browser

    def listen(self):
        """Goes on until the pump hangs up, also when the guest is gone: its last words are still to be drawn."""
        with suppress(OSError):
            while packet := self.packets.recv(PIECE + 1):
                with suppress(paramiko.SSHException, EOFError):
                    (self.enter if packet[:1] == INPUT else self.control)(packet[1:])
        with self.changed:
            self.over = True
            self.changed.notify_all()
        with suppress(*ssh.BROKEN_OFF):
            self.channel.close()

    def enter(self, data):
        """Types it, as fast as the guest takes it. OSError when the pump hangs up meanwhile."""
        since = time.monotonic()
        while data and not self.channel.closed:
            if self.channel.send_ready():
                data = data[self.sent(data) :]
                since = time.monotonic()
                continue
            with self.changed:
                self.stuck = time.monotonic() - since > SOON
                self.changed.notify_all()
            if self.hangs_up(within=10):
                raise OSError("The browser's side is gone.")
        self.stuck = False

    def sent(self, data):
        """How much of it the guest has taken; all, when it is gone."""
        try:
            return self.channel.send(data)
        except OSError:
            return len(data)

    def hangs_up(self, within):
        """Whether the pump closes its end within so many milliseconds. It may have sent more before that."""
        poll = select.poll()
        poll.register(self.packets, 0)
        return bool(poll.poll(within))

    def control(self, text):
        try:
            message = orjson.loads(text)
        except ValueError:
            return
        match message:
            case {"type": "resize", "columns": int(columns), "rows": int(rows)}:
                with suppress(OSError):  # the guest is gone
                    self.channel.resize_pty(within(columns, "columns"), within(rows, "rows"))
            case {"type": "seen", "bytes": int(count)} if count > 0:
                with self.changed:
                    self.behind = max(0, self.behind - count)
                    self.changed.notify_all()


def within(value, name):
    return min(max(value, 2), LARGEST[name])
