"""A client of the sandbox daemon on a plain socket, which sees every byte of an answer."""

import json
import socket
import struct

TOKEN = "token-of-the-tests"
STREAM_TYPE = "application/connect+json"


def encode_envelope(message, flags=0):
    payload = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">BI", flags, len(payload)) + payload


class RawClient:
    """One connection to the daemon."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=15)
        self.file = self.socket.makefile("rb")
        self.chunks = b""

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.close()

    def close(self):
        self.file.close()
        self.socket.close()

    def send(self, method, target, body=b"", headers=None, *, token=TOKEN):
        """Send a request. A list as body is sent in chunks."""
        lines = [f"{method} {target} HTTP/1.1", "Host: sandbox"]
        fields = dict(headers or {})
        if token:
            fields["X-Access-Token"] = token
        if isinstance(body, list):
            fields["Transfer-Encoding"] = "chunked"
            body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in body) + b"0\r\n\r\n"
        else:
            fields["Content-Length"] = str(len(body))
        lines += [f"{name}: {value}" for name, value in fields.items()]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode() + body)

    def read_head(self):
        """Return (status, headers in lower case)."""
        status = int(self.file.readline().split()[1])
        headers = {}
        while line := self.file.readline().strip():
            name, _separator, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        return status, headers

    def read_chunk(self):
        size = int(self.file.readline(), 16)
        chunk = self.file.read(size)
        assert self.file.readline() == b"\r\n"
        return chunk

    def read_answer(self):
        """Return (status, headers, body)."""
        status, headers = self.read_head()
        if headers.get("transfer-encoding") == "chunked":
            chunks = []
            while chunk := self.read_chunk():
                chunks.append(chunk)
            return status, headers, b"".join(chunks)
        return status, headers, self.file.read(int(headers.get("content-length", 0)))

    def request(self, *arguments, **options):
        self.send(*arguments, **options)
        return self.read_answer()

    def call(self, procedure, message, headers=None, **options):
        """Execute a unary call and return (status, message)."""
        fields = {"Content-Type": "application/json", **(headers or {})}
        status, _headers, body = self.request("POST", f"/{procedure}", json.dumps(message).encode(), fields, **options)
        return status, json.loads(body)

    def open_stream(self, procedure, message, headers=None, **options):
        """Begin a server stream and return its status."""
        fields = {"Content-Type": STREAM_TYPE, **(headers or {})}
        self.send("POST", f"/{procedure}", [encode_envelope(message)], fields, **options)
        status, answer_headers = self.read_head()
        assert answer_headers["content-type"] == STREAM_TYPE
        return status

    def read_envelope(self):
        """Return (flags, message) of the next envelope of a stream. The daemon sends each one as a chunk of its own."""
        chunk = self.read_chunk()
        flags, length = struct.unpack_from(">BI", chunk)
        assert len(chunk) == 5 + length
        return flags, json.loads(chunk[5:])

    def read_events(self):
        """Return (events, end message) of the rest of a stream."""
        events = []
        while True:
            flags, message = self.read_envelope()
            if flags:
                assert flags == 2
                assert self.read_chunk() == b""
                return events, message
            events.append(message.get("event", message))
