"""A minimal VNC viewer (RFC 6143 §7.1 and §7.2): it signs in, and checks whether the server still answers."""

import socket
import struct

from consoles.rfb import encrypt_challenge

UPDATE = 0
"""The type of the message with a part of the picture."""


def connect_signed_in(endpoint, password):
    """Return the connection after the server's description of the picture, or None when the password is wrong."""
    connection = socket.create_connection((endpoint.host, endpoint.port), timeout=20)
    assert read_exactly(connection, 12) == b"RFB 003.008\n"
    connection.sendall(b"RFB 003.008\n")
    assert read_exactly(connection, read_exactly(connection, 1)[0]) == b"\2"
    connection.sendall(b"\2")
    connection.sendall(encrypt_challenge(password, read_exactly(connection, 16)))
    if read_exactly(connection, 4) != b"\0\0\0\0":
        connection.close()
        return None
    connection.sendall(b"\1")
    *_, length = struct.unpack(">HH16sI", read_exactly(connection, 24))
    read_exactly(connection, length)
    return connection


def is_admitted(endpoint, password):
    connection = connect_signed_in(endpoint, password)
    if connection is None:
        return False
    connection.close()
    return True


def is_receiving_picture(connection):
    """Request the top left pixel, uncompressed; return whether the server sends it."""
    connection.sendall(struct.pack(">BBHi", 2, 0, 1, 0))
    connection.sendall(struct.pack(">BBHHHH", 3, 0, 0, 0, 1, 1))
    return read_exactly(connection, 1)[0] == UPDATE


def read_exactly(connection, count):
    data = b""
    while len(data) < count:
        chunk = connection.recv(count - len(data))
        if not chunk:
            raise ConnectionError("The VNC server closed the connection.")
        data += chunk
    return data
