"""A screen: the browser's VNC viewer and the node's VNC server, after both have signed in (rfb.py)."""

import contextlib
import os
import socket
import time
from dataclasses import dataclass

import structlog

from consoles import close_codes, rfb
from consoles.rfb import BROWSER, NODE
from consoles.session import WRITE, Line, at_once, unanswered
from consoles.tunnel import CONNECT_PATIENCE, NoWay, Tunnel, meaning

log = structlog.get_logger()

BROWSER_PATIENCE = 120
"""Seconds a person has to type the session's password."""

NODE_PATIENCE = 10
"""Seconds within which the node must have let the panel in; a tunnel has to be made first."""

LAST_WORDS = 3
"""Seconds a tunnel has to say why it closed."""

NODE_SILENCE = 60
"""Seconds after which a node that acknowledges nothing is given up."""

MOST_BEFORE = 4096
"""Bytes a browser may send before the screen is open."""

AUTOMATIC = (b"\x03", b"\x96", b"\xf8")
"""First bytes of what viewers send by themselves for as long as the picture changes: requests for updates, continuous
updates, fences."""


@dataclass(frozen=True)
class Target:
    """Where the screen is, and the two passwords."""

    host: str
    port: int
    password: str
    """The browser's: that of the session."""
    node_password: str
    """The panel's, for the node's VNC server; empty when that asks for none."""
    via: str | None = None
    """`ssh://user@host:22`: the SSH server through which the screen is reached (tunnel.py); None: it is called."""


class Screen(Line):
    kind = "screen"
    protocol = "binary"

    def __init__(self, connection, handshake, target: Target | None, **more):
        super().__init__(connection, handshake, target, **more)
        self.addresses = []
        """Of the node, those that were not tried yet."""
        self.talk = None
        """While both sides sign in."""
        self.arrived = {BROWSER: b"", NODE: b""}
        self.side, self.count = BROWSER, 0
        self.connecting = False
        self.tunnel = self.hung_up_at = None
        self.patience_ends = time.monotonic() + BROWSER_PATIENCE

    def prepare(self):
        if self.target.via:
            return
        with contextlib.suppress(OSError):  # without an address it cannot be reached, which is said at its time
            self.addresses = socket.getaddrinfo(self.target.host, self.target.port, type=socket.SOCK_STREAM)

    def begin(self):
        self.talk = rfb.opening(self.target.password, self.target.node_password)
        self.advance(self.talk.send, None)
        self.converse()

    def take(self, message):
        if self.talk is None:
            self.send(message)
            return
        self.arrived[BROWSER] += message
        if len(self.arrived[BROWSER]) > MOST_BEFORE:
            self.end(close_codes.BROKEN)
        else:
            self.converse()

    def give(self, data):
        if self.talk is None:
            self.show(data)
            return
        self.arrived[NODE] += data
        self.converse()

    def uses(self, message):
        return message[:1] not in AUTOMATIC

    def far_closed(self):
        if self.tunnel:
            self.hang_up()
        elif self.talk is None:
            super().far_closed()
        else:
            self.fail(close_codes.LOST)

    def far_lost(self, error):
        if self.tunnel:
            self.hang_up()
        elif self.talk is None:
            super().far_lost(error)
        elif self.connecting:
            self.close_far()
            self.call_node()
        else:
            self.fail(close_codes.LOST)

    def far_interest(self):
        if self.hung_up_at:
            return 0
        return WRITE if self.connecting else super().far_interest()

    def close_far(self):
        super().close_far()
        if self.tunnel:
            self.tunnel.end()
            self.tunnel = None

    def tick(self, now, silence):
        super().tick(now, silence)
        if self.tunnel and self.hung_up_at and now > self.hung_up_at + LAST_WORDS:
            self.tunnel_closed()
        if self.talk is not None and self.ending is None and now > self.patience_ends:
            self.fail(close_codes.UNREACHABLE if self.far else close_codes.NO_PASSWORD)

    # --- the opening

    def converse(self):
        """Goes on until bytes are needed that are not there yet, or all is said."""
        while self.talk is not None and self.ending is None:
            arrived = self.arrived[self.side]
            if len(arrived) < self.count:
                if self.side == NODE and self.far is None:
                    self.patience_ends = time.monotonic() + NODE_PATIENCE
                    if self.target.via:
                        self.dig()
                    else:
                        self.call_node()
                return
            needed, self.arrived[self.side] = arrived[: self.count], arrived[self.count :]
            self.advance(self.talk.send, needed)

    def advance(self, resume, value):
        try:
            self.side, words, self.count = resume(value)
        except StopIteration:
            self.open_screen()
        except rfb.Failed as failure:
            self.end(failure.ending)
        else:
            if words and self.side == BROWSER:
                self.show(words)
            elif words:
                self.send(words)

    def fail(self, ending):
        self.advance(self.talk.throw, rfb.Failed(ending))
        self.converse()

    def open_screen(self):
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

    def dig(self):
        self.patience_ends += CONNECT_PATIENCE
        try:
            self.tunnel = Tunnel(self.target.via, self.target.host, self.target.port)
        except NoWay as problem:
            self.fail(close_codes.UNREACHABLE.saying(str(problem)))
        else:
            self.far = self.tunnel.far
            self.tunnel.watch(self.pump, lambda: self.guard(self.tunnel_ended))

    def hang_up(self):
        """Nothing more comes through the tunnel. Why is known as soon as its process has ended."""
        self.hung_up_at = self.hung_up_at or time.monotonic()
        self.tunnel_ended()

    def tunnel_ended(self):
        """What came through before is still to be read."""
        if self.tunnel and self.tunnel.ended and self.hung_up_at:
            self.tunnel_closed()

    def tunnel_closed(self):
        said, failed = self.tunnel.said(), self.tunnel.failed
        if failed:
            log.info("console_tunnel_failed", via=self.target.via, said=said, **self.labels)
        if self.talk is not None:
            sentence = meaning(said) or close_codes.UNREACHABLE.sentence
            self.fail(close_codes.UNREACHABLE.saying(sentence) if failed else close_codes.LOST)
        else:
            self.end(close_codes.LOST if failed else close_codes.FINISHED)

    # --- calling the node

    def call_node(self):
        """Begins to connect to the next address; `connected` says how it went."""
        if not self.addresses:
            self.connecting = False
            self.fail(close_codes.UNREACHABLE)
            return
        family, kind, protocol, _, address = self.addresses.pop(0)
        self.connecting = True
        try:
            self.far = socket.socket(family, kind | socket.SOCK_NONBLOCK, protocol)
            at_once(self.far)
            unanswered(self.far, NODE_SILENCE)
            self.far.connect(address)
        except BlockingIOError:
            pass
        except OSError as error:
            self.far_lost(error)

    def connected(self):
        if self.connecting:
            if problem := self.far.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(problem, os.strerror(problem))
            try:
                self.far.getpeername()
            except OSError:  # woken for somebody else, who had this descriptor before
                return False
            self.connecting = False
        return True
