"""A node's SSH server with one user and one key, which leads to whatever listens on the node: it speaks to the real
OpenSSH client."""

import socket
import threading
from contextlib import suppress

import paramiko

from tests.support.ssh_guest import load_key, new_key

USER = "panel"


class SshNode:
    def __init__(self, forwards=True):
        self.forwards = forwards
        self.user_key, self.host_key = new_key(), load_key(new_key())
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self.listener.getsockname()
        self.via = f"ssh://{USER}@{self.host}:{self.port}"
        self.asked, self.transports = [], []
        threading.Thread(target=self.serve, daemon=True).start()

    @property
    def known(self):
        """The line for a file of known hosts."""
        return f"[{self.host}]:{self.port} {self.host_key.get_name()} {self.host_key.get_base64()}\n"

    def serve(self):
        with suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self.attend, args=(connection,), daemon=True).start()

    def attend(self, connection):
        transport = paramiko.Transport(connection)
        self.transports.append(transport)
        transport.add_server_key(self.host_key)
        door = SshNodeInterface(self)
        with suppress(paramiko.SSHException, OSError, EOFError):
            transport.start_server(server=door)
            while transport.is_active():
                if channel := transport.accept(1):
                    forward_channel(channel, door.screens.pop(channel.get_id()))

    def close(self):
        with suppress(OSError):  # it was closed before
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.hang_up()

    def hang_up(self):
        for transport in self.transports:
            transport.close()


class SshNodeInterface(paramiko.ServerInterface):
    def __init__(self, node):
        self.node, self.screens = node, {}

    def get_allowed_auths(self, username):
        return "publickey"

    def check_auth_publickey(self, username, key):
        right = username == USER and key == load_key(self.node.user_key)
        return paramiko.AUTH_SUCCESSFUL if right else paramiko.AUTH_FAILED

    def check_channel_direct_tcpip_request(self, number, origin, destination):
        self.node.asked.append(destination)
        if not self.node.forwards:
            return paramiko.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED
        try:
            self.screens[number] = socket.create_connection(destination, 10)
        except OSError:
            return paramiko.OPEN_FAILED_CONNECT_FAILED
        return paramiko.OPEN_SUCCEEDED


def forward_channel(channel, screen):
    for source, target in ((channel, screen), (screen, channel)):
        threading.Thread(target=copy, args=(source, target), daemon=True).start()


def copy(source, target):
    with suppress(OSError, EOFError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
