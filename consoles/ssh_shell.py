"""An SSH shell: the browser's terminal and a shell in the guest.

The event loop handles the browser's side, as for screens. paramiko blocks, so the guest's side has two threads of its
own (`GuestRelay`); a pair of packet sockets connects the two, each packet being a kind and its data.

The browser offers the sub-protocol `panel-shell`. Then binary messages are the terminal's bytes, both ways, and text
messages are JSON objects with a `type`:

* from the browser `resize` (`columns`, `rows`); `seen` (`bytes` of output that were drawn), the only thing that slows
  down a guest that prints faster than the terminal draws, because WebSockets have no flow control for scripts; and
  `ping`, because scripts cannot send the WebSocket's own pings;
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
from consoles.browser import TEXT, TextMessage
from consoles.close_codes import CloseReason
from consoles.session import ConsoleStream
from panel.core.messages import message

log = structlog.get_logger()

MAX_PACKET_BYTES = 32768
INPUT, OUTPUT, CONTROL, HOST_KEY, READY, END = b"i", b"o", b"c", b"k", b"r", b"e"
"""Kinds of packets."""

MAX_UNDRAWN_BYTES = 1 << 18
"""Bytes of output that the browser has not drawn yet, at most."""

STUCK_AFTER_SECONDS = 0.2
"""Seconds after which input that the guest does not take counts as stuck."""

MAX_TERMINAL_SIZE = {"columns": 500, "rows": 300}

PING, PONG = b'{"type":"ping"', b'{"type":"pong"'
MAX_PING_BYTES = 100
"""Bytes of a `ping` message."""


class SshConsole(ConsoleStream):
    kind = "shell"
    protocol = "panel-shell"
    accepts_text = True
    host_key = None
    """The guest's host key, "type base64"."""

    def on_websocket_open(self):
        self.upstream, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.upstream.setblocking(False)
        GuestRelay(other, self.target, is_acknowledging=self.is_panel_client).start()

    @property
    def is_panel_client(self):
        return self.browser.protocol == self.protocol

    def is_control_message(self, message):
        return self.is_panel_client and isinstance(message, TextMessage)

    def is_activity(self, message):
        return not self.is_control_message(message)

    def on_browser_message(self, message):
        if message.startswith(PING) and self.is_control_message(message):
            self.answer_ping(message)
            return
        kind = CONTROL if self.is_control_message(message) else INPUT
        if kind == CONTROL and len(message) > MAX_PACKET_BYTES:
            self.close(close_codes.TOO_BIG)
            return
        for start in range(0, len(message), MAX_PACKET_BYTES):
            self.send_to_upstream(kind + message[start : start + MAX_PACKET_BYTES])

    def on_upstream_data(self, packet):
        kind, data = packet[:1], packet[1:]
        if kind == OUTPUT:
            self.send_to_browser(data)
        elif kind == CONTROL:
            self.send_control(data)
        elif kind == HOST_KEY:
            self.host_key = str(data, "ascii")
        elif kind == READY:
            self.mark_opened()
            self.send_control(orjson.dumps({"type": "ready", "fingerprint": compute_fingerprint(self.host_key)}))
        elif kind == END:
            self.close(CloseReason(**orjson.loads(data)))

    def answer_ping(self, ping):
        """Answer a ping here, without waiting for the guest. A client that does not read gets no pongs, so none pile
        up."""
        if len(ping) <= MAX_PING_BYTES and not self.browser.has_unsent:
            self.send_control(ping.replace(PING, PONG, 1))

    def send_control(self, message):
        if self.is_panel_client:
            self.browser.send_message(message, TEXT)

    def on_upstream_closed(self):
        self.close(close_codes.FAILED)  # a relay that ends properly sends END first

    def close(self, close_reason):
        if self.close_reason is None and not self.browser.is_disconnected:
            with suppress(OSError):  # `close` gets the same error
                self.send_control(
                    orjson.dumps({"type": "ended", "reason": close_reason.name, "message": close_reason.message})
                )
        super().close(close_reason)


def compute_fingerprint(host_key):
    digest = hashlib.sha256(base64.b64decode(host_key.split()[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


class GuestRelay(threading.Thread):
    """Copies packets to the guest and back. `is_acknowledging`: whether the browser reports how much it has drawn."""

    def __init__(self, packet_socket, target, is_acknowledging):
        super().__init__(name="console-shell", daemon=True)
        self.packet_socket, self.target, self.is_acknowledging = packet_socket, target, is_acknowledging
        self.state_changed = threading.Condition()
        self.undrawn_bytes, self.is_stuck, self.is_input_closed = 0, False, False

    def run(self):
        with self.packet_socket:
            try:
                close_reason = self.run_shell()
            except ssh.SshRefused as refusal:
                close_reason = refusal.close_reason
            except OSError:
                return  # the browser's side is gone
            except Exception:
                log.exception("console_shell_failed", host=self.target.host)
                close_reason = close_codes.FAILED
            self.send_end(close_reason)

    def run_shell(self):
        """Run the connection from connecting to the end of the shell; return the close reason."""
        transport = ssh.connect(self.target, lambda key: self.packet_socket.send(HOST_KEY + key.encode()))
        try:
            self.channel = ssh.open_terminal(transport)
            self.packet_socket.send(READY)
            threading.Thread(target=self.relay_input, name="console-shell-input", daemon=True).start()
            return self.relay_output(transport)
        finally:
            transport.close()

    def send_end(self, close_reason):
        """Send the last packet, then read until the event loop closes its end: if this closed first, the kernel would
        drop what the event loop has not read yet."""
        facts = {"code": close_reason.code, "name": close_reason.name, "message": close_reason.message}
        with suppress(OSError):
            self.packet_socket.send(END + orjson.dumps(facts))
            while self.packet_socket.recv(MAX_PACKET_BYTES):
                pass

    # --- from the guest

    def relay_output(self, transport):
        """Pass output on until it ends; return the close reason."""
        while data := self.channel.recv(MAX_PACKET_BYTES):
            with self.state_changed:
                self.state_changed.wait_for(self.can_send_output)
                self.undrawn_bytes += len(data)
            self.packet_socket.send(OUTPUT + data)
        self.channel.status_event.wait(2)  # it often comes just after the end of the output
        code = self.channel.exit_status
        if code < 0:  # a shell that was killed, or the whole guest: then the transport ends too, in a moment
            transport.join(0.5)
            if not transport.is_active():
                return close_codes.LOST
        self.packet_socket.send(CONTROL + orjson.dumps({"type": "exit", "code": code if code >= 0 else None}))
        return close_codes.FINISHED.with_message(message("The shell ended."))

    def can_send_output(self):
        """Return whether more output may be sent. While input is stuck this is always true: the browser's `seen`
        messages wait behind that input, and the guest may take no input just because its output is not taken."""
        return (
            self.is_input_closed or self.is_stuck or not self.is_acknowledging or self.undrawn_bytes < MAX_UNDRAWN_BYTES
        )

    # --- from the browser

    def relay_input(self):
        """Read packets until the event loop closes its end, also when the guest is gone: its last output is still to be
        drawn."""
        with suppress(OSError):
            while packet := self.packet_socket.recv(MAX_PACKET_BYTES + 1):
                with suppress(paramiko.SSHException, EOFError):
                    (self.write_input if packet[:1] == INPUT else self.handle_control_message)(packet[1:])
        with self.state_changed:
            self.is_input_closed = True
            self.state_changed.notify_all()
        with suppress(*ssh.SSH_ERRORS):
            self.channel.close()

    def write_input(self, data):
        """Write input as fast as the guest takes it. Raises OSError when the event loop closes its end meanwhile."""
        last_progress_at = time.monotonic()
        while data and not self.channel.closed:
            if self.channel.send_ready():
                data = data[self.send_to_guest(data) :]
                last_progress_at = time.monotonic()
                continue
            with self.state_changed:
                self.is_stuck = time.monotonic() - last_progress_at > STUCK_AFTER_SECONDS
                self.state_changed.notify_all()
            if self.is_browser_gone(timeout_milliseconds=10):
                raise OSError("The browser's side is gone.")
        self.is_stuck = False

    def send_to_guest(self, data):
        """Return how many bytes the guest took; all, when it is gone."""
        try:
            return self.channel.send(data)
        except OSError:
            return len(data)

    def is_browser_gone(self, timeout_milliseconds):
        """Return whether the event loop closes its end within the timeout. Unread packets may still be there."""
        poll = select.poll()
        poll.register(self.packet_socket, 0)
        return bool(poll.poll(timeout_milliseconds))

    def handle_control_message(self, text):
        try:
            message = orjson.loads(text)
        except ValueError:
            return
        match message:
            case {"type": "resize", "columns": int(columns), "rows": int(rows)}:
                with suppress(OSError):  # the guest is gone
                    self.channel.resize_pty(clamp_size(columns, "columns"), clamp_size(rows, "rows"))
            case {"type": "seen", "bytes": int(count)} if count > 0:
                with self.state_changed:
                    self.undrawn_bytes = max(0, self.undrawn_bytes - count)
                    self.state_changed.notify_all()


def clamp_size(value, name):
    return min(max(value, 2), MAX_TERMINAL_SIZE[name])
