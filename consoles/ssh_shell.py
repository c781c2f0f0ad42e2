"""A shell: the browser's terminal and a shell in the guest.

The pump carries the browser's side as it does for screens. paramiko waits, so the guest's side has two threads of its
own (`GuestRelay`); a pair of packet sockets lies between, each packet being a kind and its data.

The browser offers the sub-protocol `panel-shell`. Then binary messages are the terminal's bytes, both ways, and text
messages are JSON objects with a `type`:

* from the browser `resize` (`columns`, `rows`), `seen` (`bytes` of output that were drawn): nothing else holds back a
  guest that prints faster than the terminal draws, for WebSockets take whatever comes; and `ping`, which pages cannot
  do with WebSockets themselves;
* from the panel `pong` (with all that was in the `ping`), `ready` (`host_key_fingerprint` of the guest's host key),
  `exit` (`code`, or null) and `ended` (`reason`, `message`), after which the WebSocket is closed.

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
from consoles.browser import TEXT, TextMessage
from consoles.close_codes import CloseReason
from consoles.session import ConsoleStream

log = structlog.get_logger()

MAX_PACKET_BYTES = 32768
INPUT, OUTPUT, CONTROL, HOST_KEY, READY, END = b"i", b"o", b"c", b"k", b"r", b"e"
"""Kinds of packets."""

MAX_UNDRAWN_BYTES = 1 << 18
"""Bytes of output the browser may be behind with drawing."""

STUCK_AFTER_SECONDS = 0.2
"""Seconds after which input that the guest does not take counts as stuck."""

MAX_TERMINAL_SIZE = {"columns": 500, "rows": 300}

PING, PONG = b'{"type":"ping"', b'{"type":"pong"'
MAX_PING_BYTES = 100
"""Bytes."""


class SshConsole(ConsoleStream):
    kind = "shell"
    protocol = "panel-shell"
    takes_text = True
    host_key = None
    """What the guest showed, "type base64"."""

    def begin(self):
        self.upstream, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.upstream.setblocking(False)
        GuestRelay(other, self.target, is_acknowledging=self.is_panel_client).start()

    @property
    def is_panel_client(self):
        return self.browser.protocol == self.protocol

    def is_control(self, message):
        return self.is_panel_client and isinstance(message, TextMessage)

    def is_activity(self, message):
        return not self.is_control(message)

    def take(self, message):
        if message.startswith(PING) and self.is_control(message):
            self.answer(message)
            return
        kind = CONTROL if self.is_control(message) else INPUT
        if kind == CONTROL and len(message) > MAX_PACKET_BYTES:
            self.end(close_codes.TOO_BIG)
            return
        for start in range(0, len(message), MAX_PACKET_BYTES):
            self.send(kind + message[start : start + MAX_PACKET_BYTES])

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
            self.tell(orjson.dumps({"type": "ready", "fingerprint": host_key_fingerprint(self.host_key)}))
        elif kind == END:
            self.end(CloseReason(**orjson.loads(data)))

    def answer(self, ping):
        """Here, where no guest is waited for. Who asks and does not read gets nothing: it would pile up."""
        if len(ping) <= MAX_PING_BYTES and not self.browser.unsent:
            self.tell(ping.replace(PING, PONG, 1))

    def tell(self, message):
        if self.is_panel_client:
            self.browser.put(message, TEXT)

    def on_upstream_closed(self):
        self.end(close_codes.FAILED)  # a guide that ends says why

    def end(self, ending):
        if self.close_reason is None and not self.browser.gone:
            with suppress(OSError):  # `end` finds out too
                self.tell(orjson.dumps({"type": "ended", "reason": ending.word, "message": ending.sentence}))
        super().end(ending)


def host_key_fingerprint(host_key):
    digest = hashlib.sha256(base64.b64decode(host_key.split()[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


class GuestRelay(threading.Thread):
    """Leads from the packets to the guest and back. `counts`: whether the browser says what it has drawn."""

    def __init__(self, packets, guest, is_acknowledging):
        super().__init__(name="console-shell", daemon=True)
        self.packets, self.guest, self.is_acknowledging = packets, guest, is_acknowledging
        self.changed = threading.Condition()
        self.undrawn_bytes, self.is_stuck, self.over = 0, False, False

    def run(self):
        with self.packets:
            try:
                ending = self.lead()
            except ssh.SshRefused as refusal:
                ending = refusal.close_reason
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
            self.channel = ssh.open_terminal(transport)
            self.packets.send(READY)
            threading.Thread(target=self.listen, name="console-shell-input", daemon=True).start()
            return self.relay_output(transport)
        finally:
            transport.close()

    def finish(self, ending):
        """The last packet, and then whatever still comes is read until the pump hangs up: closing earlier would make
        the kernel drop what the pump has not read yet."""
        facts = {"code": ending.code, "word": ending.word, "sentence": ending.sentence}
        with suppress(OSError):
            self.packets.send(END + orjson.dumps(facts))
            while self.packets.recv(MAX_PACKET_BYTES):
                pass

    # --- from the guest

    def relay_output(self, transport):
        """Passes output on until there is none; returns how it ended."""
        while data := self.channel.recv(MAX_PACKET_BYTES):
            with self.changed:
                self.changed.wait_for(self.can_print)
                self.undrawn_bytes += len(data)
            self.packets.send(OUTPUT + data)
        self.channel.status_event.wait(2)  # it often comes just after the end of the output
        code = self.channel.exit_status
        if code < 0:  # a shell that was killed, or the whole guest: then the transport ends too, in a moment
            transport.join(0.5)
            if not transport.is_active():
                return close_codes.LOST
        self.packets.send(CONTROL + orjson.dumps({"type": "exit", "code": code if code >= 0 else None}))
        return close_codes.FINISHED.with_message("The shell ended.")

    def can_print(self):
        """While the guest takes no input, what the browser has drawn is not heard of either, for that comes behind the
        input; and the guest may take none because nobody takes its output."""
        return self.over or self.is_stuck or not self.is_acknowledging or self.undrawn_bytes < MAX_UNDRAWN_BYTES

    # --- from the browser

    def listen(self):
        """Goes on until the pump hangs up, also when the guest is gone: its last words are still to be drawn."""
        with suppress(OSError):
            while packet := self.packets.recv(MAX_PACKET_BYTES + 1):
                with suppress(paramiko.SSHException, EOFError):
                    (self.type_input if packet[:1] == INPUT else self.control)(packet[1:])
        with self.changed:
            self.over = True
            self.changed.notify_all()
        with suppress(*ssh.SSH_ERRORS):
            self.channel.close()

    def type_input(self, data):
        """Types it, as fast as the guest takes it. OSError when the pump hangs up meanwhile."""
        since = time.monotonic()
        while data and not self.channel.closed:
            if self.channel.send_ready():
                data = data[self.sent(data) :]
                since = time.monotonic()
                continue
            with self.changed:
                self.is_stuck = time.monotonic() - since > STUCK_AFTER_SECONDS
                self.changed.notify_all()
            if self.is_hung_up(within=10):
                raise OSError("The browser's side is gone.")
        self.is_stuck = False

    def sent(self, data):
        """How much of it the guest has taken; all, when it is gone."""
        try:
            return self.channel.send(data)
        except OSError:
            return len(data)

    def is_hung_up(self, within):
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
                    self.channel.resize_pty(clamp_size(columns, "columns"), clamp_size(rows, "rows"))
            case {"type": "seen", "bytes": int(count)} if count > 0:
                with self.changed:
                    self.undrawn_bytes = max(0, self.undrawn_bytes - count)
                    self.changed.notify_all()


def clamp_size(value, name):
    return min(max(value, 2), MAX_TERMINAL_SIZE[name])
