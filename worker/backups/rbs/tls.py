"""TLS connections to a server whose certificate is pinned, as servers with self-signed certificates need it."""

import hashlib
import hmac
import socket
import ssl

from worker.backups.rbs.errors import FingerprintMismatch, ServerFailed

CONNECT_TIMEOUT_SECONDS = 5.0


def connect(host: str, port: int, fingerprint: str | None, timeout: float) -> ssl.SSLSocket:
    """Return a connection to the server. Raises `FingerprintMismatch` unless its certificate has the SHA-256
    fingerprint; None accepts every certificate. `timeout` is in seconds, for each later call."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the fingerprint is compared instead
    try:
        plain = socket.create_connection((host, port), min(timeout, CONNECT_TIMEOUT_SECONDS))
    except OSError as error:
        raise ServerFailed("the connection", describe_error(error)) from error
    try:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection = context.wrap_socket(plain, server_hostname=host)
    except OSError as error:
        plain.close()
        raise ServerFailed("the TLS handshake", describe_error(error)) from error
    connection.settimeout(timeout)
    presented = compute_fingerprint(connection)
    if fingerprint is not None and not hmac.compare_digest(normalize(presented), normalize(fingerprint)):
        connection.close()
        raise FingerprintMismatch(presented)
    return connection


def compute_fingerprint(connection: ssl.SSLSocket) -> str:
    """Return the SHA-256 fingerprint of the server's certificate, as `openssl x509 -fingerprint` prints it."""
    certificate = connection.getpeercert(binary_form=True) or b""
    return hashlib.sha256(certificate).digest().hex(":").upper()


def normalize(fingerprint: str) -> str:
    return fingerprint.replace(":", "").lower()


def describe_error(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def read_fingerprint(host: str, port: int, timeout: float) -> str:
    """Return the fingerprint of the certificate that the server presents. Nothing else is sent to it."""
    with connect(host, port, None, timeout) as connection:
        return compute_fingerprint(connection)
