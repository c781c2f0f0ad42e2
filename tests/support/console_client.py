"""A WebSocket client for consoles. It can also violate the protocol."""

import base64
import hashlib
import os
import socket
import struct

from consoles.rfb import encrypt_challenge

WEBSOCKET_KEY = base64.b64encode(b"sixteen bytes ok").decode()
WEBSOCKET_ACCEPT = base64.b64encode(
    hashlib.sha1((WEBSOCKET_KEY + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
).decode()

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class WebSocketClosed(Exception):
    """The panel closed the WebSocket. `code` is None when the connection ended without a close frame."""

    def __init__(self, code=None, reason=""):
        super().__init__(code, reason)
        self.code, self.reason = code, reason


def socket_pair(*, small=False):
    """Return both ends of a TCP connection. With `small` their kernel buffers are 4 KiB."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.socket()
        if small:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(listener.getsockname())
        server, _ = listener.accept()
        if small:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    client.settimeout(20)
    return client, server


class ConsoleClient:
    def __init__(self, connection, protocol=""):
        self.connection, self.protocol = connection, protocol
        self.buffer, self.stream, self.pongs = b"", b"", []
        self.answers_pings = True

    def request(self, path="/vnc/", host="panel", **headers):
        """Send the upgrade request. Return the HTTP status."""
        self.connection.sendall(self.build_request(path, host, **headers))
        return self.read_response()

    def build_request(self, path="/vnc/", host="panel", **headers):
        lines = {
            "Host": host,
            "Upgrade": "websocket",
            "Connection": "keep-alive, Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": WEBSOCKET_KEY,
        }
        if self.protocol:
            lines["Sec-WebSocket-Protocol"] = self.protocol
        lines |= {name.replace("_", "-"): value for name, value in headers.items()}
        text = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value is not None)
        return f"GET {path} HTTP/1.1\r\n{text}\r\n".encode()

    def read_response(self):
        while b"\r\n\r\n" not in self.buffer:
            self.receive_more()
        self.head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        return int(self.head.split()[1])

    def receive_more(self):
        data = self.connection.recv(65536)
        if not data:
            raise WebSocketClosed
        self.buffer += data

    # --- frames

    def frame(self, opcode, payload=b"", fin=True, mask=True):
        size = len(payload)
        head = bytes([opcode | (128 if fin else 0)])
        flag = 128 if mask else 0
        if size < 126:
            head += bytes([size | flag])
        elif size < 65536:
            head += struct.pack(">BH", 126 | flag, size)
        else:
            head += struct.pack(">BQ", 127 | flag, size)
        if not mask:
            return head + payload
        key = os.urandom(4)
        keys = (key * (size // 4 + 1))[:size]
        masked = (int.from_bytes(payload, "big") ^ int.from_bytes(keys, "big")).to_bytes(size, "big")
        return head + key + masked

    def send(self, payload, opcode=BINARY, **options):
        self.connection.sendall(self.frame(opcode, payload, **options))

    def close(self, code=1000):
        self.send(struct.pack(">H", code), CLOSE)

    def receive(self):
        """Return the next message as (opcode, payload). Raises WebSocketClosed after the last."""
        while True:
            opcode, payload = self.next_frame()
            if opcode == CLOSE:
                self.send(payload[:2], CLOSE)
                raise WebSocketClosed(struct.unpack(">H", payload[:2])[0], payload[2:].decode())
            if opcode == PING:
                if self.answers_pings:
                    self.send(payload, PONG)
            elif opcode == PONG:
                self.pongs.append(payload)
            else:
                return opcode, payload

    def next_frame(self):
        while len(self.buffer) < 2:
            self.receive_more()
        size, start = self.buffer[1], 2
        assert self.buffer[0] & 128, "the panel does not send parts of messages"
        if size > 125:
            width = 2 if size == 126 else 8
            while len(self.buffer) < 2 + width:
                self.receive_more()
            size, start = int.from_bytes(self.buffer[2 : 2 + width], "big"), 2 + width
        while len(self.buffer) < start + size:
            self.receive_more()
        opcode, payload = self.buffer[0] & 15, self.buffer[start : start + size]
        self.buffer = self.buffer[start + size :]
        return opcode, payload

    def read(self, count):
        """Return `count` bytes of the stream, across frames."""
        while len(self.stream) < count:
            self.stream += self.receive()[1]
        data, self.stream = self.stream[:count], self.stream[count:]
        return data

    def wait_until_closed(self):
        """Read until the panel closes. Return (close code, reason)."""
        try:
            while True:
                self.receive()
        except WebSocketClosed as closed:
            return closed.code, closed.reason
        except ConnectionResetError:
            return None, "reset"

    # --- RFB

    def sign_in(self, password, version=8):
        """Authenticate as a VNC viewer. Return the reason of a refusal, or None."""
        assert self.read(12) == b"RFB 003.008\n"
        self.send(b"RFB 003.00%d\n" % version)
        if version == 3:
            assert self.read(4) == b"\0\0\0\2"
        else:
            assert self.read(2) == b"\1\2"
            self.send(b"\2")
        self.send(encrypt_challenge(password, self.read(16)))
        if self.read(4) == b"\0\0\0\0":
            self.send(b"\1")
            return None
        return self.read(int.from_bytes(self.read(4), "big")).decode() if version == 8 else ""
