"""Private members of websockify, in one place; tests/consoles/test_compat.py fails when an upgrade changes one.

websockify frames the consoles' WebSockets by the owner's choice (docs/decisions/0008-consoles.md). Its public interface
sends one message at a time and accepts any length and any type, which a server of many slow browsers cannot.
"""

from websockify.websocket import WebSocket


class ObservableWebSocket(WebSocket):
    """websockify's WebSocket, with its queues readable and its steps replaceable. Subclasses implement the `on_…`
    methods."""

    @property
    def unsent_size(self):
        """The bytes that are queued. There is no public way to know whether a message was sent as a whole."""
        return len(self._send_buffer)

    @property
    def unread_size(self):
        """The bytes that arrived and make no whole frame yet."""
        return len(self._recv_buffer)

    @property
    def partial_size(self):
        """The bytes of a message whose last frame has not arrived. The public interface has no limit for them."""
        return len(self._partial_msg)

    @property
    def is_close_sent(self):
        """Whether a close frame was sent. The public interface has only a close code, also when none was sent."""
        return self._sent_close

    @property
    def is_close_received(self):
        """Whether a close frame was received, or the connection lost."""
        return self._received_close

    def queue_message(self, opcode, message):
        """Queue a frame behind what is unsent. The public `sendmsg` refuses until everything was sent."""
        self._send_buffer += self._encode_hybi(opcode, message)

    def send_queue(self):
        """Send what the socket takes. The public methods do so only when called with the same message again."""
        self._flush()

    def discard_received(self):
        """Forget everything that has arrived, for a browser that broke the framing."""
        self._recv_buffer = self._partial_msg = b""
        self._recv_queue.clear()

    def on_received(self):
        """Do what is to be done when bytes have arrived."""

    def on_unread(self, buffer):
        """Check the bytes of a frame that may be incomplete. Without this, a frame of any length is collected."""

    def on_decoded(self, frame):
        """Change a frame, a dict with `opcode` and `payload`. Without this, text frames end the connection."""

    def on_socket_unused(self):
        """Forget the socket. Without this it would be closed while the event loop watches it."""

    # --- what websockify calls

    def _recv(self):
        received = super()._recv()
        self.on_received()
        return received

    def _decode_hybi(self, buffer):
        self.on_unread(buffer)
        if frame := super()._decode_hybi(buffer):
            self.on_decoded(frame)
        return frame

    def _close(self):
        self.on_socket_unused()

    def _unmask(self, buffer, mask):
        """Unmask a short message, such as a key press, with one large integer, which is several times faster than
        numpy."""
        size = len(buffer)
        if size > 1024:
            return super()._unmask(buffer, mask)
        mask = (mask * (size // 4 + 1))[:size]
        return (int.from_bytes(buffer, "big") ^ int.from_bytes(mask, "big")).to_bytes(size, "big")
