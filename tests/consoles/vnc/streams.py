"""What VNC servers of tests send and receive."""

import hashlib
import random
import socket
import struct

RANDOM_MEBIBYTE = random.Random(4).randbytes(1 << 20)


def echo(connection):
    while data := connection.recv(65536):
        connection.sendall(data)


def send_random_mebibytes(count):
    """Return a `play` function for a VNC server that sends this many MiB."""

    def play(connection):
        for _ in range(count):
            connection.sendall(RANDOM_MEBIBYTE)

    return play


def wait_for_close(connection):
    while connection.recv(65536):
        pass


def reset_connection(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def hash_received(viewer, mebibytes):
    received = hashlib.sha256()
    for _ in range(mebibytes * 16):
        received.update(viewer.read(1 << 16))
    return received.hexdigest()
