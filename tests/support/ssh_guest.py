"""An SSH server of a guest, with one user and one key. The test provides the shell."""

import io
import socket
import threading
from contextlib import suppress

import paramiko
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


def create_key():
    """Return a new private key in OpenSSH format."""
    key = Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()


def load_key(text):
    return paramiko.Ed25519Key.from_private_key(io.StringIO(text))


def public_key_line(key):
    return f"{key.get_name()} {key.get_base64()}"


class SshGuest:
    """A server whose shell is `play(channel, interface)`, which returns the exit code or None."""

    def __init__(self, play, *host_keys, gives_terminals=True):
        self.play, self.gives_terminals = play, gives_terminals
        self.user_key, self.host_keys = create_key(), host_keys or (load_key(create_key()),)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self.listener.getsockname()
        self.interfaces, self.transports = [], []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.handle_connection, args=(connection,), daemon=True).start()

    def handle_connection(self, connection):
        transport = paramiko.Transport(connection)
        self.transports.append(transport)
        for key in self.host_keys:
            transport.add_server_key(key)
        interface = SshGuestInterface(self)
        self.interfaces.append(interface)
        try:
            transport.start_server(server=interface)
            channel = transport.accept(20)
            if channel and interface.open.wait(20):
                code = self.play(channel, interface)
                if code is not None:
                    channel.send_exit_status(code)
                channel.close()
        except (paramiko.SSHException, OSError, EOFError):
            pass  # the client disconnected

    def close(self):
        with suppress(OSError):  # it is closed already
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for transport in self.transports:
            transport.close()


class SshGuestInterface(paramiko.ServerInterface):
    def __init__(self, server):
        self.server, self.open = server, threading.Event()
        self.attempts, self.terminal = 0, None
        self.sizes = []

    def get_allowed_auths(self, username):
        return "publickey"

    def check_auth_publickey(self, username, key):
        self.attempts += 1
        is_correct = username == "root" and key == load_key(self.server.user_key)
        return paramiko.AUTH_SUCCESSFUL if is_correct else paramiko.AUTH_FAILED

    def check_channel_request(self, kind, number):
        return paramiko.OPEN_SUCCEEDED

    def check_channel_pty_request(self, channel, term, width, height, *_):
        self.terminal = term
        self.sizes.append((width, height))
        return self.server.gives_terminals

    def check_channel_window_change_request(self, channel, width, height, *_):
        self.sizes.append((width, height))
        return True

    def check_channel_shell_request(self, channel):
        self.open.set()
        return True
