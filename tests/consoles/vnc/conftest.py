"""Screens, from a browser's WebSocket through the pump to a VNC server: real sockets, nothing replaced."""

import hashlib
import random
import socket
import struct

NOISE_BYTES = random.Random(4).randbytes(1 << 20)


def echo(connection):
    while data := connection.recv(65536):
        connection.sendall(data)


def send_pictures(megabytes):
    def play(connection):
        for _ in range(megabytes):
            connection.sendall(NOISE_BYTES)

    return play


def wait_for_close(connection):
    while connection.recv(65536):
        pass


def reset_connection(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def digest(viewer, megabytes):
    found = hashlib.sha256()
    for _ in range(megabytes * 16):
        found.update(viewer.read(1 << 16))
    return found.hexdigest()
