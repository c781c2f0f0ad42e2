"""Screens, from a browser's WebSocket through the pump to a VNC server: real sockets, nothing replaced."""

import hashlib
import random
import socket
import struct

NOISE = random.Random(4).randbytes(1 << 20)


def echo(connection):
    while data := connection.recv(65536):
        connection.sendall(data)


def pictures(megabytes):
    def play(connection):
        for _ in range(megabytes):
            connection.sendall(NOISE)

    return play


def wait(connection):
    while connection.recv(65536):
        pass


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def digest(seat, megabytes):
    found = hashlib.sha256()
    for _ in range(megabytes * 16):
        found.update(seat.read(1 << 16))
    return found.hexdigest()
