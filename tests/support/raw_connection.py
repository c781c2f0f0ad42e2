"""A client's connection that sends raw bytes."""

import contextlib
import re

CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)


class Connection:
    """A client's connection that sends raw bytes and reads one answer after the other."""

    def __init__(self, connection):
        self.socket, self.buffer = connection, b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, *parts):
        for part in parts:
            self.socket.sendall(part)

    def receive(self):
        data = self.socket.recv(1 << 18)
        if not data:
            raise EOFError(self.buffer)
        self.buffer += data

    def read_until(self, mark):
        while mark not in self.buffer:
            self.receive()
        content, self.buffer = self.buffer.split(mark, 1)
        return content

    def read_answer(self, head_only=False):
        """Return the status, the head and the body of the next answer. The body has a Content-Length."""
        head = self.read_until(b"\r\n\r\n")
        match = CONTENT_LENGTH.search(head)
        length = int(match[1]) if match and not head_only else 0
        while len(self.buffer) < length:
            self.receive()
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return int(head.split(b" ")[1]), head, body

    def read_until_closed(self):
        """Return everything until the server closes the connection."""
        with contextlib.suppress(ConnectionError):
            while data := self.socket.recv(1 << 18):
                self.buffer += data
        return self.buffer

    def is_closed_within(self, seconds):
        self.socket.settimeout(seconds)
        try:
            while self.socket.recv(1 << 16):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            pass
        return True
