"""How other processes talk to the console server: a private Unix socket, one JSON line each way. The command `open`
also carries the descriptor of the client's connection."""

import os
import socket

import orjson

MAX_COMMAND_BYTES = 65536
"""Maximum bytes of a command. Answers have no limit."""


def connect(path, seconds) -> socket.socket:
    """Return a connection to the console server with a timeout of `seconds` for each step. Raises OSError when there is
    none."""
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
    """Return the answer. Raises ValueError when the line is incomplete."""
    with connection.makefile("rb") as lines:
        return orjson.loads(lines.readline())


def receive_command(connection):
    """Return a command and the descriptor that came with it, or None. Raises ValueError for an invalid command."""
    text, descriptors, flags, _ = socket.recv_fds(connection, MAX_COMMAND_BYTES, 1)
    try:
        while not text.endswith(b"\n") and (chunk := connection.recv(MAX_COMMAND_BYTES)):
            text += chunk
            if len(text) > MAX_COMMAND_BYTES:
                raise ValueError("The command is too long.")
        if flags & socket.MSG_CTRUNC:
            raise ValueError("More than one connection came with the command.")
        command = orjson.loads(text)
        if not isinstance(command, dict):
            raise ValueError("The command is not an object.")
        return command, descriptors.pop() if descriptors else None
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def request(path, command, seconds=5):
    """Return the console server's answer to the command. Raises OSError or ValueError when there is none."""
    with connect(path, seconds) as connection:
        send(connection, command)
        return receive(connection)
