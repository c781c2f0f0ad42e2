"""A screen: the browser's VNC viewer and the node's VNC server, after both have signed in (rfb.py)."""

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

log = structlog.get_logger()

PASSWORD_TIMEOUT_SECONDS = 120
"""Seconds a person has to type the session's password."""

NODE_HANDSHAKE_TIMEOUT_SECONDS = 10
"""Seconds within which the node must have let the panel in; a tunnel has to be made first."""

TUNNEL_ERROR_WAIT_SECONDS = 3
"""Seconds a tunnel has to say why it closed."""

NODE_SILENCE_TIMEOUT_SECONDS = 60
"""Seconds after which a node that acknowledges nothing is given up."""

MAX_EARLY_BYTES = 4096
"""Bytes a browser may send before the screen is open."""

AUTOMATIC_MESSAGE_TYPES = (b"\x03", b"\x96", b"\xf8")
"""First bytes of what viewers send by themselves for as long as the picture changes: requests for updates, continuous
updates, fences."""


@dataclass(frozen=True)
class VncTarget:
    """Where the screen is, and the two passwords."""

    host: str
    port: int
    password: str
    """The browser's: that of the session."""
    node_password: str
    """The panel's, for the node's VNC server; empty when that asks for none."""
    via: str | None = None
    """`ssh://user@host:22`: the SSH server through which the screen is reached (tunnel.py); None: it is called."""


class VncConsole(ConsoleStream):
    kind = "screen"
    protocol = "binary"

    def __init__(self, connection, handshake, target: VncTarget | None, **more):
        super().__init__(connection, handshake, target, **more)
        self.addresses = []
        """Of the node, those that were not tried yet."""
        self.talk = None
        """While both sides sign in."""
        self.arrived = {BROWSER: b"", NODE: b""}
        self.awaited_side, self.count = BROWSER, 0
        self.is_connecting = False
        self.tunnel = self.hung_up_at = None
        self.handshake_deadline = time.monotonic() + PASSWORD_TIMEOUT_SECONDS

    def prepare(self):
        if self.target.via:
            return
        with contextlib.suppress(OSError):  # without an address it cannot be reached, which is said at its time
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

    # --- the opening

    def continue_handshake(self):
        """Goes on until bytes are needed that are not there yet, or all is said."""
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
            needed, self.arrived[self.awaited_side] = arrived[: self.count], arrived[self.count :]
            self.step_handshake(self.talk.send, needed)

    def step_handshake(self, resume, value):
        try:
            self.awaited_side, words, self.count = resume(value)
        except StopIteration:
            self.start_relay()
        except rfb.HandshakeFailed as failure:
            self.end(failure.close_reason)
        else:
            if words and self.awaited_side == BROWSER:
                self.show(words)
            elif words:
                self.send(words)

    def fail(self, ending):
        self.step_handshake(self.talk.throw, rfb.HandshakeFailed(ending))
        self.continue_handshake()

    def start_relay(self):
        """From here on both sides talk to each other, beginning with what they said already."""
        self.talk = None
        self.ready()
        early = self.arrived
        self.arrived = None
        if early[NODE]:
            self.show(early[NODE])
        if early[BROWSER]:
            self.send(early[BROWSER])

    # --- through a tunnel

    def open_tunnel(self):
        self.handshake_deadline += CONNECT_TIMEOUT_SECONDS
        try:
            self.tunnel = Tunnel(self.target.via, self.target.host, self.target.port)
        except TunnelError as problem:
            self.fail(close_codes.UNREACHABLE.with_message(str(problem)))
        else:
            self.upstream = self.tunnel.upstream
            self.tunnel.watch(self.event_loop, lambda: self.guard(self.on_tunnel_ended))

    def hang_up(self):
        """Nothing more comes through the tunnel. Why is known as soon as its process has ended."""
        self.hung_up_at = self.hung_up_at or time.monotonic()
        self.on_tunnel_ended()

    def on_tunnel_ended(self):
        """What came through before is still to be read."""
        if self.tunnel and self.tunnel.ended and self.hung_up_at:
            self.on_tunnel_closed()

    def on_tunnel_closed(self):
        said, failed = self.tunnel.said(), self.tunnel.failed
        if failed:
            log.info("console_tunnel_failed", via=self.target.via, said=said, **self.labels)
        if self.talk is not None:
            sentence = find_message(said) or close_codes.UNREACHABLE.sentence
            self.fail(close_codes.UNREACHABLE.with_message(sentence) if failed else close_codes.LOST)
        else:
            self.end(close_codes.LOST if failed else close_codes.FINISHED)

    # --- calling the node

    def connect_node(self):
        """Begins to connect to the next address; `connected` says how it went."""
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
            except OSError:  # woken for somebody else, who had this descriptor before
                return False
            self.is_connecting = False
        return True
