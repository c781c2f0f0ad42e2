"""The SSH connection to a guest, by paramiko, with a key pair of the session and the known host key."""

import hmac
import io
import logging
import socket
from dataclasses import dataclass

import paramiko

from consoles.close_codes import NOT_ADMITTED, REFUSED, UNREACHABLE, CloseReason
from panel.core.messages import message

logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # it logs tracebacks of whatever a peer does

SSH_STEP_TIMEOUT_SECONDS = 10
"""Seconds for each step: connecting, key exchange, authentication, opening the terminal."""

SSH_ERRORS = (paramiko.SSHException, OSError, EOFError)
"""What paramiko raises, in any call, when the guest is gone."""

GUEST_SILENCE_TIMEOUT_SECONDS = 45
"""Seconds after which a guest that acknowledges nothing counts as lost."""

SSH_WINDOW_BYTES = 1 << 18
"""Bytes a guest may send ahead, so at most this much still arrives after Ctrl-C."""

HOST_KEY_CHANGED = CloseReason(
    1008, "host_key_changed", message("The host key of the instance has changed. Check why.")
)


@dataclass(frozen=True)
class SshTarget:
    host: str
    port: int
    user: str
    private_key: str
    """The session's key: Ed25519 in OpenSSH's format."""
    host_key: str | None = None
    """The only key to accept, "type base64"; None accepts any."""


class SshRefused(Exception):
    def __init__(self, close_reason):
        super().__init__(close_reason.message)
        self.close_reason = close_reason


def connect(guest: SshTarget, on_host_key):
    """Return a transport that is signed in. `on_host_key(key)` is called with the guest's key before it is compared; a
    guest with a wrong key gets no authentication attempt. Raises `SshRefused`, whose `close_reason` says what
    failed."""
    transport = paramiko.Transport(open_connection(guest), default_window_size=SSH_WINDOW_BYTES)
    transport.daemon = True
    transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = SSH_STEP_TIMEOUT_SECONDS
    options = transport.get_security_options()
    options.ciphers = sorted(options.ciphers, key=lambda name: "gcm" not in name)  # GCM is the fastest
    try:
        if guest.host_key:
            options.key_types = list_key_algorithms(guest.host_key)
        transport.start_client(timeout=SSH_STEP_TIMEOUT_SECONDS)
        key = transport.get_remote_server_key()
        host_key = f"{key.get_name()} {key.get_base64()}"
        on_host_key(host_key)
        if guest.host_key and not hmac.compare_digest(host_key, guest.host_key):
            raise SshRefused(HOST_KEY_CHANGED)
        transport.auth_publickey(guest.user, paramiko.Ed25519Key.from_private_key(io.StringIO(guest.private_key)))
    except Exception as error:
        transport.close()
        if (refusal := classify_error(error)) is None:
            raise
        raise refusal from error
    transport.set_keepalive(30)
    return transport


def open_connection(guest):
    try:
        connection = socket.create_connection((guest.host, guest.port), SSH_STEP_TIMEOUT_SECONDS)
    except OSError as error:
        raise SshRefused(
            UNREACHABLE.with_message(
                message("The instance does not respond to SSH. Check that it is running and that its port is open.")
            )
        ) from error
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, GUEST_SILENCE_TIMEOUT_SECONDS * 1000)
    return connection


def list_key_algorithms(host_key):
    """Return the algorithms for a key of that type. With others allowed, the guest might present another of its
    keys."""
    kind = host_key.split()[0]
    return ["rsa-sha2-512", "rsa-sha2-256"] if kind == "ssh-rsa" else [kind]


def classify_error(error):
    """Return the `SshRefused` for an error; None when the panel is at fault."""
    if isinstance(error, SshRefused):
        return error
    if isinstance(error, paramiko.IncompatiblePeer) and "host key" in str(error):
        return SshRefused(HOST_KEY_CHANGED)
    if isinstance(error, paramiko.AuthenticationException):
        return SshRefused(NOT_ADMITTED.with_message(message("The instance does not accept the panel's key.")))
    if isinstance(error, SSH_ERRORS):
        return SshRefused(REFUSED.with_message(message("The SSH server of the instance closed the connection.")))
    return None


def open_terminal(transport, columns=80, rows=24):
    """Return a channel with the user's login shell on a terminal."""
    try:
        channel = transport.open_session(timeout=SSH_STEP_TIMEOUT_SECONDS)
        channel.get_pty("xterm-256color", columns, rows)
        channel.invoke_shell()
        return channel
    except SSH_ERRORS as error:
        raise SshRefused(REFUSED.with_message(message("The instance did not open a terminal."))) from error
