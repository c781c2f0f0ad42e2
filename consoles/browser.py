"""The browser's side: websockify's WebSocket, on a request that was parsed already and a socket that never waits.

Frames are queued whole, so that pings, pongs and the close may be said at any time, also while a large frame is half
sent; websockify's own `sendmsg` allows that only when the socket has taken everything.
"""

import struct
import time
from contextlib import suppress

from websockify.websocket import WebSocket, WebSocketWantReadError, WebSocketWantWriteError

MAX_MESSAGE_BYTES = 1 << 18
"""Bytes of a message. Browsers send keys, and clipboards in pieces."""

TEXT, BINARY, PING, PONG = 1, 2, 9, 10


class MessageTooBig(Exception):
    """The browser announced or sent a message that is longer than LONGEST."""


class TextMessage(bytes):
    """A message that came as text; all others are binary."""


class BrowserSocket(WebSocket):
    def __init__(self, protocol, takes_text=False):
        super().__init__()
        self.requested_protocol, self.takes_text = protocol, takes_text
        self.last_heard_at = time.monotonic()
        """When the browser last showed that it is there."""
        self.pending_pong = None
        self.deaf = False

    def open(self, connection, handshake):
        """Answers the handshake. The sub-protocol is taken up when the browser offers it."""
        headers = {"upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": handshake["key"]}
        if self.requested_protocol in handshake["protocols"]:
            headers["Sec-WebSocket-Protocol"] = self.requested_protocol
        try:
            self.accept(connection, headers)
        except WebSocketWantWriteError:
            self._state = "done"  # the rest goes out with `flush`

    def select_subprotocol(self, protocols):
        return protocols[0]

    @property
    def gone(self):
        return self.socket is None

    @property
    def unsent(self):
        return bool(self._send_buffer)

    @property
    def closing(self):
        """Whether a close was said or heard."""
        return self._sent_close or self._received_close

    @property
    def left(self):
        """Whether the browser said that it leaves."""
        return self._received_close and self.close_code != 1006

    def put(self, message, opcode=BINARY):
        """Sends a message, or as much of it as goes; `flush` sends the rest."""
        if not self.closing:
            self._send_buffer += self._encode_hybi(opcode, message)
            self.flush()

    def put_close(self, code, reason):
        with suppress(WebSocketWantWriteError):  # the rest goes out with `flush`
            self.shutdown(None, code, reason)

    def stop_listening(self):
        """What comes from now on is not worth keeping: the browser lost its way among the frames."""
        self.deaf = True
        self._recv_buffer = self._partial_msg = b""
        self._recv_queue.clear()

    def flush(self):
        try:
            self._flush()
        except WebSocketWantWriteError:
            return
        if self.pending_pong is not None:
            asked, self.pending_pong = self.pending_pong, None
            self.put(asked, PONG)

    def messages(self):
        """What has arrived. Ends when there is nothing more for now, or for ever (`closing`, `gone`)."""
        try:
            while (message := self.recvmsg()) is not None:
                yield message
                if not self.pending():
                    break
        except WebSocketWantReadError:
            pass
        except WebSocketWantWriteError:  # of a close that was answered
            pass
        if len(self._partial_msg) > MAX_MESSAGE_BYTES:
            raise MessageTooBig

    # --- what websockify calls

    def _close(self):
        """The connection is closed by who watches it, after that."""
        self.socket = None

    def handle_ping(self, data):
        """Only the last one is answered, and not before the frame that is being sent: a peer that asks and does not
        read costs nothing."""
        self.pending_pong = data
        if not self.unsent:
            self.flush()

    def _recv(self):
        more = super()._recv()
        self.last_heard_at = time.monotonic()
        if self.deaf:
            self._recv_buffer = b""
        return more

    def _decode_hybi(self, buffer):
        if announced_length(buffer) > MAX_MESSAGE_BYTES:
            raise MessageTooBig
        frame = super()._decode_hybi(buffer)
        if frame and frame["opcode"] == TEXT and self.takes_text:
            frame["opcode"], frame["payload"] = BINARY, TextMessage(frame["payload"])
        return frame

    def _unmask(self, buffer, mask):
        """For a key press, a large integer is several times faster than numpy."""
        size = len(buffer)
        if size > 1024:
            return super()._unmask(buffer, mask)
        mask = (mask * (size // 4 + 1))[:size]
        return (int.from_bytes(buffer, "big") ^ int.from_bytes(mask, "big")).to_bytes(size, "big")


def announced_length(buffer):
    """The length that a frame's header gives, as far as it has arrived (RFC 6455 §5.2)."""
    if len(buffer) >= 10 and buffer[1] & 0x7F == 127:
        return struct.unpack_from(">Q", buffer, 2)[0]
    return 0
