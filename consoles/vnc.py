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
from panel.core.messages import message_of

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
    via: str | None = None
    """`ssh://user@host:22`: the SSH server through which the screen is reached (`tunnel`); None: directly."""


class VncConsole(ConsoleStream):
    kind = "screen"
    protocol = "binary"

    def __init__(self, connection, handshake, target: VncTarget | None, **options):
        super().__init__(connection, handshake, target, **options)
        self.addresses: list = []
        """The node's addresses that were not tried yet."""
        self.talk = None
        """The handshake's generator; None once both sides have signed in."""
        self.arrived = {BROWSER: b"", NODE: b""}
        self.awaited_side, self.count = BROWSER, 0
        self.is_connecting = False
        self.tunnel = self.hung_up_at = None
        self.handshake_deadline = time.monotonic() + PASSWORD_TIMEOUT_SECONDS

    def prepare(self):
        if self.target.via:
            return
        with contextlib.suppress(OSError):  # `connect_node` reports that there is no address
            self.addresses = socket.getaddrinfo(self.target.host, self.target.port, type=socket.SOCK_STREAM)

    def begin(self):
        self.talk = rfb.run_handshake(self.target.password, self.target.node_password)
        self.step_handshake(self.talk.send, None)
        self.continue_handshake()

    def take(self, message):
        if self.talk is None:
            self.send(message)
            return
        self.arrived[BROWSER] += message
        if len(self.arrived[BROWSER]) > MAX_EARLY_BYTES:
            self.end(close_codes.BROKEN)
        else:
            self.continue_handshake()

    def give(self, data):
        if self.talk is None:
            self.show(data)
            return
        self.arrived[NODE] += data
        self.continue_handshake()

    def is_activity(self, message):
        return message[:1] not in AUTOMATIC_MESSAGE_TYPES

    def on_upstream_closed(self):
        if self.tunnel:
            self.hang_up()
        elif self.talk is None:
            super().on_upstream_closed()
        else:
            self.fail(close_codes.LOST)

    def on_upstream_lost(self, error):
        if self.tunnel:
            self.hang_up()
        elif self.talk is None:
            super().on_upstream_lost(error)
        elif self.is_connecting:
            self.close_upstream()
            self.connect_node()
        else:
            self.fail(close_codes.LOST)

    def upstream_interest(self):
        if self.hung_up_at:
            return 0
        return WRITE if self.is_connecting else super().upstream_interest()

    def close_upstream(self):
        super().close_upstream()
        if self.tunnel:
            self.tunnel.end()
            self.tunnel = None

    def tick(self, now, silence):
        super().tick(now, silence)
        if self.tunnel and self.hung_up_at and now > self.hung_up_at + TUNNEL_ERROR_WAIT_SECONDS:
            self.on_tunnel_closed()
        if self.talk is not None and self.close_reason is None and now > self.handshake_deadline:
            self.fail(close_codes.UNREACHABLE if self.upstream else close_codes.NO_PASSWORD)

    # --- handshake

    def continue_handshake(self):
        """Continue until bytes are needed that have not arrived yet, or until the handshake is over."""
        while self.talk is not None and self.close_reason is None:
            arrived = self.arrived[self.awaited_side]
            if len(arrived) < self.count:
                if self.awaited_side == NODE and self.upstream is None:
                    self.handshake_deadline = time.monotonic() + NODE_HANDSHAKE_TIMEOUT_SECONDS
                    if self.target.via:
                        self.open_tunnel()
                    else:
                        self.connect_node()
                return
            received, self.arrived[self.awaited_side] = arrived[: self.count], arrived[self.count :]
            self.step_handshake(self.talk.send, received)

    def step_handshake(self, resume, value):
        try:
            self.awaited_side, outgoing, self.count = resume(value)
        except StopIteration:
            self.start_relay()
        except rfb.HandshakeFailed as failure:
            self.end(failure.close_reason)
        else:
            if outgoing and self.awaited_side == BROWSER:
                self.show(outgoing)
            elif outgoing:
                self.send(outgoing)

    def fail(self, close_reason):
        self.step_handshake(self.talk.throw, rfb.HandshakeFailed(close_reason))
        self.continue_handshake()

    def start_relay(self):
        """From here on bytes are copied, beginning with those that arrived early."""
        self.talk = None
        self.ready()
        early = self.arrived
        self.arrived = None
        if early[NODE]:
            self.show(early[NODE])
        if early[BROWSER]:
            self.send(early[BROWSER])

    # --- tunnel

    def open_tunnel(self):
        self.handshake_deadline += CONNECT_TIMEOUT_SECONDS
        try:
            self.tunnel = Tunnel(self.target.via, self.target.host, self.target.port)
        except TunnelError as problem:
            self.fail(close_codes.UNREACHABLE.with_message(message_of(problem)))
        else:
            self.upstream = self.tunnel.upstream
            self.tunnel.watch(self.event_loop, lambda: self.guard(self.on_tunnel_ended))

    def hang_up(self):
        """The tunnel's socket is at its end. The reason is known as soon as its process has ended."""
        self.hung_up_at = self.hung_up_at or time.monotonic()
        self.on_tunnel_ended()

    def on_tunnel_ended(self):
        """Close when the process has ended and the socket was read to its end."""
        if self.tunnel and self.tunnel.ended and self.hung_up_at:
            self.on_tunnel_closed()

    def on_tunnel_closed(self):
        output, failed = self.tunnel.read_errors(), self.tunnel.failed
        if failed:
            log.info("console_tunnel_failed", via=self.target.via, said=output, **self.labels)
        if self.talk is not None:
            sentence = find_message(output) or close_codes.UNREACHABLE.sentence
            self.fail(close_codes.UNREACHABLE.with_message(sentence) if failed else close_codes.LOST)
        else:
            self.end(close_codes.LOST if failed else close_codes.FINISHED)

    # --- direct connection

    def connect_node(self):
        """Start to connect to the next address; `connected` checks the result."""
        if not self.addresses:
            self.is_connecting = False
            self.fail(close_codes.UNREACHABLE)
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

    def connected(self):
        if self.is_connecting:
            if problem := self.upstream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(problem, os.strerror(problem))
            try:
                self.upstream.getpeername()
            except OSError:  # an event for the socket that had this descriptor before
                return False
            self.is_connecting = False
        return True
