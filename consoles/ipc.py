"""How other processes speak with the console process: a private Unix socket, one JSON line each way, and with `open`
the client's connection beside it."""

import os
import socket

import orjson

MAX_COMMAND_BYTES = 65536
"""Bytes of an order. An answer may be of any length."""


def connect(path, seconds) -> socket.socket:
    """A connection to the console process whose every step ends within `seconds`; OSError when there is none."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(seconds)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


def send(connection, message, descriptor=None):
    text = orjson.dumps(message) + b"\n"
    if descriptor is not None:
        text = text[socket.send_fds(connection, [text], [descriptor]) :]
    if text:  # sending nothing fails when the other side has answered and hung up already
        connection.sendall(text)


def receive(connection):
    """The answer; ValueError when the line breaks off."""
    with connection.makefile("rb") as lines:
        return orjson.loads(lines.readline())


def receive_command(connection):
    """An order and the descriptor that came with it, or None. ValueError for what is no order."""
    text, descriptors, flags, _ = socket.recv_fds(connection, MAX_COMMAND_BYTES, 1)
    try:
        while not text.endswith(b"\n") and (more := connection.recv(MAX_COMMAND_BYTES)):
            text += more
            if len(text) > MAX_COMMAND_BYTES:
                raise ValueError("The order is too long.")
        if flags & socket.MSG_CTRUNC:
            raise ValueError("More than one connection came with the order.")
        order = orjson.loads(text)
        if not isinstance(order, dict):
            raise ValueError("The order is not an object.")
        return order, descriptors.pop() if descriptors else None
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def request(path, order, seconds=5):
    """What the console process answers; OSError or ValueError when it does not."""
    with connect(path, seconds) as connection:
        send(connection, order)
        return receive(connection)
