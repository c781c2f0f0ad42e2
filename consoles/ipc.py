"""How other processes speak with the console process: a private Unix socket, one JSON line each way, and with `open`
the client's connection beside it."""

import os
import socket

import orjson

LONGEST = 65536
"""Bytes of an order. An answer may be of any length."""


def call(path, seconds) -> socket.socket:
    """A connection to the console process whose every step ends within `seconds`; OSError when there is none."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(seconds)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


def say(connection, message, descriptor=None):
    text = orjson.dumps(message) + b"\n"
    if descriptor is not None:
        text = text[socket.send_fds(connection, [text], [descriptor]) :]
    if text:  # sending nothing fails when the other side has answered and hung up already
        connection.sendall(text)


def hear(connection):
    """The answer; ValueError when the line breaks off."""
    with connection.makefile("rb") as lines:
        return orjson.loads(lines.readline())


def hear_order(connection):
    """An order and the descriptor that came with it, or None. ValueError for what is no order."""
    text, descriptors, flags, _ = socket.recv_fds(connection, LONGEST, 1)
    try:
        while not text.endswith(b"\n") and (more := connection.recv(LONGEST)):
            text += more
            if len(text) > LONGEST:
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


def ask(path, order, seconds=5):
    """What the console process answers; OSError or ValueError when it does not."""
    with call(path, seconds) as connection:
        say(connection, order)
        return hear(connection)
