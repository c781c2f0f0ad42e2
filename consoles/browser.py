"""The browser's side: websockify's WebSocket on a request that was parsed already, over a non-blocking socket.

Frames are queued whole, so a ping, pong or close may be sent at any time, also while a large frame is half sent.
websockify's own `sendmsg` allows that only when the socket has taken everything.
"""

import struct
import time
from contextlib import suppress

from websockify.websocket import WebSocketWantReadError, WebSocketWantWriteError

from consoles.compat import ObservableWebSocket

MAX_MESSAGE_BYTES = 1 << 18
"""Bytes of a message. Browsers send key presses, and the clipboard in several messages."""

TEXT, BINARY, PING, PONG = 1, 2, 9, 10


class MessageTooBig(Exception):
    """The browser announced or sent a message longer than MAX_MESSAGE_BYTES."""


class TextMessage(bytes):
    """A message that arrived as text; all others are binary."""


class BrowserSocket(ObservableWebSocket):
    def __init__(self, protocol, accepts_text=False):
        super().__init__()
        self.requested_protocol, self.accepts_text = protocol, accepts_text
        self.last_activity_at = time.monotonic()
        """When the last bytes or acknowledgement of the browser arrived (monotonic)."""
        self.pending_pong = None
        self.is_input_discarded = False

    def accept_handshake(self, connection, handshake):
        """Answer the handshake. The sub-protocol is selected when the browser offers it."""
        headers = {"upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": handshake["key"]}
        if self.requested_protocol in handshake["protocols"]:
            headers["Sec-WebSocket-Protocol"] = self.requested_protocol
        with suppress(WebSocketWantWriteError):  # `flush` sends the rest
            self.accept(connection, headers)

    def select_subprotocol(self, protocols):
        return protocols[0]

    @property
    def is_disconnected(self):
        return self.socket is None

    @property
    def has_unsent(self):
        return self.unsent_size > 0

    @property
    def is_closing(self):
        """Return whether a close frame was sent or received."""
        return self.is_close_sent or self.is_close_received

    @property
    def is_closed_cleanly(self):
        """Return whether the browser closed the WebSocket properly, with a close frame."""
        return self.is_close_received and self.close_code != 1006

    def send_message(self, message, opcode=BINARY):
        """Send a message, or as much of it as the socket takes; `flush` sends the rest."""
        if not self.is_closing:
            self.queue_message(opcode, message)
            self.flush()

    def send_close(self, code, reason):
        with suppress(WebSocketWantWriteError):  # `flush` sends the rest
            self.shutdown(None, code, reason)

    def discard_input(self):
        """Discard everything that arrives from now on, because the browser broke the framing."""
        self.is_input_discarded = True
        self.discard_received()

    def flush(self):
        try:
            self.send_queue()
        except WebSocketWantWriteError:
            return
        if self.pending_pong is not None:
            ping, self.pending_pong = self.pending_pong, None
            self.send_message(ping, PONG)

    def receive_messages(self):
        """Yield the messages that have arrived. Ends when there are no more for now, or for ever (`is_closing`,
        `is_disconnected`)."""
        try:
            while (message := self.recvmsg()) is not None:
                yield message
                if not self.pending():
                    break
        except WebSocketWantReadError:
            pass
        except WebSocketWantWriteError:  # the answer to a close
            pass
        if self.partial_size > MAX_MESSAGE_BYTES:
            raise MessageTooBig

    def on_socket_unused(self):
        """Forget the socket. The console stream that watches it closes it afterwards."""
        self.socket = None

    def handle_ping(self, data):
        """Answer only the last ping, after the frame that is being sent, so a peer that pings and does not read uses no
        memory."""
        self.pending_pong = data
        if not self.has_unsent:
            self.flush()

    def on_received(self):
        self.last_activity_at = time.monotonic()
        if self.is_input_discarded:
            self.discard_received()

    def on_unread(self, buffer):
        if get_announced_length(buffer) > MAX_MESSAGE_BYTES:
            raise MessageTooBig

    def on_decoded(self, frame):
        if frame["opcode"] == TEXT and self.accepts_text:
            frame["opcode"], frame["payload"] = BINARY, TextMessage(frame["payload"])


def get_announced_length(buffer):
    """Return the payload length in a frame's header, as far as it has arrived (RFC 6455 §5.2); 0 for short frames."""
    if len(buffer) >= 10 and buffer[1] & 0x7F == 127:
        return struct.unpack_from(">Q", buffer, 2)[0]
    return 0
