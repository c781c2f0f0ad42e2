"""A small VNC server, like that of a machine. It authenticates a client and then runs a function of the test."""

import os
import socket
import struct
import threading
from contextlib import suppress

from consoles.rfb import encrypt_challenge

REFUSAL_REASON = b"Too many security failures"


class VncServer:
    """`play(connection)` gets the connection after ClientInit. `client_inits` collects the ClientInit bytes."""

    def __init__(self, play, password="nodepass", version=8, kind=2, refuses=False):
        self.play, self.password, self.version, self.kind, self.refuses = play, password, version, kind, refuses
        self.client_inits, self.problems = [], []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self.listener.getsockname()
        self.connections = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self.handle_connection, args=(connection,), daemon=True).start()

    def handle_connection(self, connection):
        try:
            if self.sign_in(connection):
                self.client_inits.append(read_exactly(connection, 1))
                self.play(connection)
        except OSError as error:
            self.problems.append(error)
        finally:
            connection.close()

    def sign_in(self, connection):
        connection.sendall(b"RFB 003.00%d\n" % self.version)
        assert read_exactly(connection, 12) == b"RFB 003.00%d\n" % self.version
        if self.refuses:
            no_security_types = struct.pack(">I", 0) if self.version == 3 else b"\0"
            connection.sendall(no_security_types + struct.pack(">I", len(REFUSAL_REASON)) + REFUSAL_REASON)
            return False
        if self.version == 3:
            connection.sendall(struct.pack(">I", self.kind))
        else:
            connection.sendall(bytes([2, 19, self.kind]))
            assert read_exactly(connection, 1) == bytes([self.kind])
        is_correct = True
        if self.kind == 2:
            challenge = os.urandom(16)
            connection.sendall(challenge)
            is_correct = read_exactly(connection, 16) == encrypt_challenge(self.password, challenge)
        if self.kind == 2 or self.version == 8:
            connection.sendall(struct.pack(">I", not is_correct))
        if not is_correct and self.version == 8:
            connection.sendall(struct.pack(">I", len(REFUSAL_REASON)) + REFUSAL_REASON)
        return is_correct

    def close(self):
        with suppress(OSError):  # it is closed already
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.connections:
            connection.close()


def read_exactly(connection, count):
    data = b""
    while len(data) < count:
        chunk = connection.recv(count - len(data))
        if not chunk:
            raise ConnectionError("The other side ended.")
        data += chunk
    return data
