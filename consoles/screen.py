"""A screen: the browser's VNC viewer and the node's VNC server, after both have signed in (rfb.py)."""

import contextlib
import os
import socket
import time
from dataclasses import dataclass

from consoles import endings, rfb
from consoles.line import WRITE, Line, at_once
from consoles.rfb import BROWSER, NODE

BROWSER_PATIENCE = 120
"""Seconds a person has to type the session's password."""

NODE_PATIENCE = 10
"""Seconds within which the node must have let the panel in."""

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


class Screen(Line):
    kind = "screen"
    protocol = "binary"

    def __init__(self, connection, handshake, target: Target, **more):
        super().__init__(connection, handshake, **more)
        self.target = target
        self.addresses = []
        """Of the node, those that were not tried yet."""
        self.talk = rfb.opening(target.password, target.node_password)
        """None once the screen is open."""
        self.arrived = {BROWSER: b"", NODE: b""}
        self.side, self.count = BROWSER, 0
        self.connecting = False
        self.patience_ends = time.monotonic() + BROWSER_PATIENCE

    def prepare(self):
        with contextlib.suppress(OSError):  # without an address it cannot be reached, which is said at its time
            self.addresses = socket.getaddrinfo(self.target.host, self.target.port, type=socket.SOCK_STREAM)

    def begin(self):
        self.advance(self.talk.send, None)
        self.converse()

    def take(self, message):
        if self.talk is None:
            self.send(message)
            return
        self.arrived[BROWSER] += message
        if len(self.arrived[BROWSER]) > MOST_BEFORE:
            self.end(endings.BROKEN)
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
        if self.talk is None:
            super().far_closed()
        else:
            self.fail(endings.LOST)

    def far_lost(self, error):
        if self.talk is None:
            super().far_lost(error)
        elif self.connecting:
            self.close_far()
            self.call_node()
        else:
            self.fail(endings.LOST)

    def far_interest(self):
        return WRITE if self.connecting else super().far_interest()

    def tick(self, now, silence):
        super().tick(now, silence)
        if self.talk is not None and self.ending is None and now > self.patience_ends:
            self.fail(endings.UNREACHABLE if self.far else endings.NO_PASSWORD)

    # --- the opening

    def converse(self):
        """Goes on until bytes are needed that are not there yet, or all is said."""
        while self.talk is not None and self.ending is None:
            arrived = self.arrived[self.side]
            if len(arrived) < self.count:
                if self.side == NODE and self.far is None:
                    self.patience_ends = time.monotonic() + NODE_PATIENCE
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

    # --- calling the node

    def call_node(self):
        """Begins to connect to the next address; `connected` says how it went."""
        if not self.addresses:
            self.connecting = False
            self.fail(endings.UNREACHABLE)
            return
        family, kind, protocol, _, address = self.addresses.pop(0)
        self.connecting = True
        try:
            self.far = socket.socket(family, kind | socket.SOCK_NONBLOCK, protocol)
            at_once(self.far)
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
