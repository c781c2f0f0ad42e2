"""A VNC console: the browser's viewer and the node's VNC server, after both have signed in (`rfb`)."""

import contextlib
import os
import socket
import time
from dataclasses import dataclass

import structlog

from consoles import close_codes, rfb
from consoles.rfb import BROWSER, NODE
from consoles.session import WRITE, ConsoleStream, disable_nagle, set_peer_timeout
from consoles.tunnel import CONNECT_TIMEOUT_SECONDS, Tunnel, TunnelError, find_message
from panel.core.messages import get_message

log = structlog.get_logger()

PASSWORD_TIMEOUT_SECONDS = 120
"""Seconds a user has to type the session's password."""

NODE_HANDSHAKE_TIMEOUT_SECONDS = 10
"""Seconds for the handshake with the node; with a tunnel, its connection time is added."""

TUNNEL_ERROR_WAIT_SECONDS = 3
"""Seconds to wait for the tunnel's process to end and report why."""

NODE_SILENCE_TIMEOUT_SECONDS = 60
"""Seconds after which a node that acknowledges nothing counts as lost."""

MAX_EARLY_BYTES = 4096
"""Bytes a browser may send before the screen is open."""

AUTOMATIC_MESSAGE_TYPES = (b"\x03", b"\x96", b"\xf8")
"""First bytes of messages that viewers send by themselves while the picture changes: update requests, continuous
updates, fences."""


@dataclass(frozen=True)
class VncTarget:
    """The screen's address and the two passwords."""

    host: str
    port: int
    password: str
    """The session's password, for the browser."""
    node_password: str
    """The password of the node's VNC server; empty when it needs none."""
    ssh_jump: str | None = None
    """`ssh://user@host:22`: the SSH server through which the screen is reached (`tunnel`); None: directly."""


class VncConsole(ConsoleStream):
    kind = "screen"
    protocol = "binary"

    def __init__(self, connection, handshake, target: VncTarget | None, **options):
        super().__init__(connection, handshake, target, **options)
        self.addresses: list = []
        """The node's addresses that were not tried yet."""
        self.rfb_handshake = None
        """The generator of the VNC handshake; None once both sides have signed in."""
        self.received = {BROWSER: b"", NODE: b""}
        self.reading_side, self.needed_bytes = BROWSER, 0
        self.is_connecting = False
        self.tunnel = self.upstream_closed_at = None
        self.handshake_deadline = time.monotonic() + PASSWORD_TIMEOUT_SECONDS

    def prepare_upstream(self):
        if self.target.ssh_jump:
            return
        with contextlib.suppress(OSError):  # `connect_node` reports that there is no address
            self.addresses = socket.getaddrinfo(self.target.host, self.target.port, type=socket.SOCK_STREAM)

    def on_websocket_open(self):
        self.rfb_handshake = rfb.run_handshake(self.target.password, self.target.node_password)
        self.step_handshake(self.rfb_handshake.send, None)
        self.continue_handshake()

    def on_browser_message(self, message):
        if self.rfb_handshake is None:
            self.send_to_upstream(message)
            return
        self.received[BROWSER] += message
        if len(self.received[BROWSER]) > MAX_EARLY_BYTES:
            self.close(close_codes.BROKEN)
        else:
            self.continue_handshake()

    def on_upstream_data(self, data):
        if self.rfb_handshake is None:
            self.send_to_browser(data)
            return
        self.received[NODE] += data
        self.continue_handshake()

    def is_activity(self, message):
        return message[:1] not in AUTOMATIC_MESSAGE_TYPES

    def on_upstream_closed(self):
        if self.tunnel:
            self.on_tunnel_disconnected()
        elif self.rfb_handshake is None:
            super().on_upstream_closed()
        else:
            self.fail_handshake(close_codes.LOST)

    def on_upstream_lost(self, error):
        if self.tunnel:
            self.on_tunnel_disconnected()
        elif self.rfb_handshake is None:
            super().on_upstream_lost(error)
        elif self.is_connecting:
            self.close_upstream()
            self.connect_node()
        else:
            self.fail_handshake(close_codes.LOST)

    def get_upstream_events(self):
        if self.upstream_closed_at:
            return 0
        return WRITE if self.is_connecting else super().get_upstream_events()

    def close_upstream(self):
        super().close_upstream()
        if self.tunnel:
            self.tunnel.close()
            self.tunnel = None

    def check_timeouts(self, now):
        super().check_timeouts(now)
        if self.tunnel and self.upstream_closed_at and now > self.upstream_closed_at + TUNNEL_ERROR_WAIT_SECONDS:
            self.close_with_tunnel_error()
        if self.rfb_handshake is not None and self.close_reason is None and now > self.handshake_deadline:
            self.fail_handshake(close_codes.UNREACHABLE if self.upstream else close_codes.NO_PASSWORD)

    # --- handshake

    def continue_handshake(self):
        """Continue until bytes are needed that have not arrived yet, or until the handshake is over."""
        while self.rfb_handshake is not None and self.close_reason is None:
            received = self.received[self.reading_side]
            if len(received) < self.needed_bytes:
                if self.reading_side == NODE and self.upstream is None:
                    self.handshake_deadline = time.monotonic() + NODE_HANDSHAKE_TIMEOUT_SECONDS
                    if self.target.ssh_jump:
                        self.open_tunnel()
                    else:
                        self.connect_node()
                return
            answer, self.received[self.reading_side] = received[: self.needed_bytes], received[self.needed_bytes :]
            self.step_handshake(self.rfb_handshake.send, answer)

    def step_handshake(self, resume, value):
        try:
            self.reading_side, outgoing, self.needed_bytes = resume(value)
        except StopIteration:
            self.start_relay()
        except rfb.HandshakeFailed as failure:
            self.close(failure.close_reason)
        else:
            if outgoing and self.reading_side == BROWSER:
                self.send_to_browser(outgoing)
            elif outgoing:
                self.send_to_upstream(outgoing)

    def fail_handshake(self, close_reason):
        self.step_handshake(self.rfb_handshake.throw, rfb.HandshakeFailed(close_reason))
        self.continue_handshake()

    def start_relay(self):
        """From here on bytes are copied, beginning with those that arrived early."""
        self.rfb_handshake = None
        self.mark_opened()
        early_data = self.received
        self.received = None
        if early_data[NODE]:
            self.send_to_browser(early_data[NODE])
        if early_data[BROWSER]:
            self.send_to_upstream(early_data[BROWSER])

    # --- tunnel

    def open_tunnel(self):
        self.handshake_deadline += CONNECT_TIMEOUT_SECONDS
        try:
            self.tunnel = Tunnel(self.target.ssh_jump, self.target.host, self.target.port)
        except TunnelError as problem:
            self.fail_handshake(close_codes.UNREACHABLE.with_message(get_message(problem)))
        else:
            self.upstream = self.tunnel.upstream
            self.tunnel.watch_exit(self.event_loop, lambda: self.run_guarded(self.close_if_tunnel_ended))

    def on_tunnel_disconnected(self):
        """The tunnel's socket is at its end. The reason is known as soon as its process has ended."""
        self.upstream_closed_at = self.upstream_closed_at or time.monotonic()
        self.close_if_tunnel_ended()

    def close_if_tunnel_ended(self):
        """Close when the process has ended and the socket was read to its end."""
        if self.tunnel and self.tunnel.has_ended and self.upstream_closed_at:
            self.close_with_tunnel_error()

    def close_with_tunnel_error(self):
        output, has_failed = self.tunnel.read_errors(), self.tunnel.has_failed
        if has_failed:
            log.info("console_tunnel_failed", ssh_jump=self.target.ssh_jump, output=output, **self.labels)
        if self.rfb_handshake is not None:
            message = find_message(output) or close_codes.UNREACHABLE.message
            self.fail_handshake(close_codes.UNREACHABLE.with_message(message) if has_failed else close_codes.LOST)
        else:
            self.close(close_codes.LOST if has_failed else close_codes.FINISHED)

    # --- direct connection

    def connect_node(self):
        """Start to connect to the next address; `is_upstream_connected` checks the result."""
        if not self.addresses:
            self.is_connecting = False
            self.fail_handshake(close_codes.UNREACHABLE)
            return
        family, kind, protocol, _, address = self.addresses.pop(0)
        self.is_connecting = True
        try:
            self.upstream = socket.socket(family, kind | socket.SOCK_NONBLOCK, protocol)
            disable_nagle(self.upstream)
            set_peer_timeout(self.upstream, NODE_SILENCE_TIMEOUT_SECONDS)
            self.upstream.connect(address)
        except BlockingIOError:
            pass
        except OSError as error:
            self.on_upstream_lost(error)

    def is_upstream_connected(self):
        if self.is_connecting:
            if problem := self.upstream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(problem, os.strerror(problem))
            try:
                self.upstream.getpeername()
            except OSError:  # an event for the socket that had this descriptor before
                return False
            self.is_connecting = False
        return True
