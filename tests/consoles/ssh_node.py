"""The SSH server of a node, for the OpenSSH client. It accepts one user with one key and forwards TCP connections."""

import socket
import threading
from contextlib import suppress

import paramiko

from tests.support.ssh_guest import create_key, load_key

USER = "panel"


class SshNode:
    def __init__(self, allows_forwarding=True):
        self.allows_forwarding = allows_forwarding
        self.user_key, self.host_key = create_key(), load_key(create_key())
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self.listener.getsockname()
        self.ssh_jump = f"ssh://{USER}@{self.host}:{self.port}"
        self.forward_targets, self.transports = [], []
        threading.Thread(target=self.serve, daemon=True).start()

    @property
    def known_hosts_line(self):
        """Return the server's line for a known_hosts file."""
        return f"[{self.host}]:{self.port} {self.host_key.get_name()} {self.host_key.get_base64()}\n"

    def serve(self):
        with suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self.handle_connection, args=(connection,), daemon=True).start()

    def handle_connection(self, connection):
        transport = paramiko.Transport(connection)
        self.transports.append(transport)
        transport.add_server_key(self.host_key)
        interface = SshNodeInterface(self)
        with suppress(paramiko.SSHException, OSError, EOFError):
            transport.start_server(server=interface)
            while transport.is_active():
                if channel := transport.accept(1):
                    forward_channel(channel, interface.forwarded_sockets.pop(channel.get_id()))

    def close(self):
        with suppress(OSError):  # it is closed already
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.disconnect_clients()

    def disconnect_clients(self):
        for transport in self.transports:
            transport.close()


class SshNodeInterface(paramiko.ServerInterface):
    def __init__(self, node):
        self.node, self.forwarded_sockets = node, {}

    def get_allowed_auths(self, username):
        return "publickey"

    def check_auth_publickey(self, username, key):
        is_correct = username == USER and key == load_key(self.node.user_key)
        return paramiko.AUTH_SUCCESSFUL if is_correct else paramiko.AUTH_FAILED

    def check_channel_direct_tcpip_request(self, number, origin, destination):
        self.node.forward_targets.append(destination)
        if not self.node.allows_forwarding:
            return paramiko.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED
        try:
            self.forwarded_sockets[number] = socket.create_connection(destination, 10)
        except OSError:
            return paramiko.OPEN_FAILED_CONNECT_FAILED
        return paramiko.OPEN_SUCCEEDED


def forward_channel(channel, target_socket):
    for source, target in ((channel, target_socket), (target_socket, channel)):
        threading.Thread(target=copy_data, args=(source, target), daemon=True).start()


def copy_data(source, target):
    with suppress(OSError, EOFError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
