"""The VNC handshake (RFC 6143 §7.1 and §7.2), carried out by the panel on both sides.

The browser sends the password of its session; only then does the panel connect to the node and sign in there with the
node's password. From the browser's ClientInit on, bytes are only copied. So the session's password is useless once the
session was redeemed, the browser never learns the node's password, and creating a session needs no call to the node.

Nothing here touches a socket. A handshake is a generator that yields `(side, bytes to send, number of bytes it needs
from that side next)` and is sent those bytes.
"""

import hmac
import os
import struct

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes

from consoles.close_codes import LOST, NOT_ADMITTED, REFUSED
from panel.core.messages import message

BROWSER, NODE = "browser", "node"

RFB_VERSION = b"RFB 003.008\n"
SECURITY_NONE, SECURITY_VNC = 1, 2
"""Security types."""

RESULT_OK, RESULT_FAILED = struct.pack(">I", 0), struct.pack(">I", 1)
MAX_REASON_BYTES = 1000


class HandshakeFailed(Exception):
    """The handshake cannot go on; `close_reason` says why."""

    def __init__(self, close_reason):
        super().__init__(close_reason.message)
        self.close_reason = close_reason


def run_handshake(password, node_password):
    """Sign in the browser, then sign in to the node. A failure is sent to the browser as RFB's SecurityResult before it
    is raised, so any viewer shows it."""
    version = yield from greet_browser()
    try:
        yield from authenticate_browser(version, password)
        yield from authenticate_to_node(node_password)
    except HandshakeFailed as failure:
        yield BROWSER, build_failure_result(version, failure.close_reason.message), 0
        raise
    yield BROWSER, RESULT_OK, 0


def greet_browser():
    """Return the minor version to use with the browser."""
    return parse_minor_version((yield BROWSER, RFB_VERSION, 12), "browser")


def parse_minor_version(greeting, peer):
    """Return 3, 7 or 8. Other 3.x versions are treated as 3.3 (§7.1.1), newer major versions as 3.8."""
    try:
        name, major, number = greeting[:4], int(greeting[4:7]), int(greeting[8:11])
    except ValueError:
        name = b""
    if name != b"RFB " or greeting[11:] != b"\n":
        raise HandshakeFailed(REFUSED.with_message(message("The {peer} does not speak VNC.", peer=peer)))
    if major > 3:
        return 8
    return number if number in (7, 8) else 3


def authenticate_browser(version, password):
    """Check the session's password; a session allows one attempt."""
    if version == 3:
        yield BROWSER, struct.pack(">I", SECURITY_VNC), 0
    else:
        security_type = yield BROWSER, bytes([1, SECURITY_VNC]), 1
        if security_type[0] != SECURITY_VNC:
            raise HandshakeFailed(NOT_ADMITTED.with_message(message("The viewer does not sign in with a password.")))
    challenge = os.urandom(16)
    answer = yield BROWSER, challenge, 16
    if not password or not hmac.compare_digest(answer, encrypt_challenge(password, challenge)):
        raise HandshakeFailed(NOT_ADMITTED)


def build_failure_result(version, reason):
    """Return a failed SecurityResult; before 3.8 it carries no reason (§7.1.3)."""
    text = reason.encode()
    return RESULT_FAILED + (struct.pack(">I", len(text)) + text if version == 8 else b"")


def authenticate_to_node(password):
    """Sign in to the node's VNC server as a client."""
    version = parse_minor_version((yield NODE, b"", 12), "server")
    yield NODE, b"RFB 003.00%d\n" % version, 0
    kind = yield from read_old_security() if version == 3 else choose_security(password)
    if kind == SECURITY_VNC:
        challenge = yield NODE, b"", 16
        yield NODE, encrypt_challenge(password, challenge), 0
    if (kind == SECURITY_VNC or version == 8) and (yield NODE, b"", 4) != RESULT_OK:
        reason = (yield from read_reason()) if version == 8 else ""
        raise HandshakeFailed(
            REFUSED.with_message(
                message("The VNC server does not accept the panel: {reason}.", reason=reason or "no reason given")
            )
        )


def choose_security(password):
    (count,) = yield NODE, b"", 1
    if not count:
        yield from raise_refused()
    offered = yield NODE, b"", count
    kind = next(
        (
            kind
            for kind in ((SECURITY_VNC, SECURITY_NONE) if password else (SECURITY_NONE, SECURITY_VNC))
            if kind in offered
        ),
        None,
    )
    if kind is None:
        raise HandshakeFailed(
            REFUSED.with_message(message("The VNC server requires a sign-in method that the panel does not support."))
        )
    yield NODE, bytes([kind]), 0
    return kind


def read_old_security():
    """Return the security type: in 3.3 the server decides."""
    (kind,) = struct.unpack(">I", (yield NODE, b"", 4))
    if kind == 0:
        yield from raise_refused()
    if kind not in (SECURITY_NONE, SECURITY_VNC):
        raise HandshakeFailed(
            REFUSED.with_message(message("The VNC server requires a sign-in method that the panel does not support."))
        )
    return kind


def raise_refused():
    reason = yield from read_reason()
    raise HandshakeFailed(REFUSED.with_message(reason or REFUSED.message))


def read_reason():
    (length,) = struct.unpack(">I", (yield NODE, b"", 4))
    if length > MAX_REASON_BYTES:
        raise HandshakeFailed(LOST)
    return (yield NODE, b"", length).decode("utf-8", "replace").strip() if length else ""


def encrypt_challenge(password, challenge):
    """Return the challenge, encrypted by DES with the password (§7.2.2)."""
    key = build_des_key(password.encode()[:8].ljust(8, b"\0"))
    return Cipher(TripleDES(key * 3), modes.ECB()).encryptor().update(challenge)  # three equal keys: plain DES


def build_des_key(password):
    """Return the password's 8 bytes as a DES key: VNC reverses the bits of each byte."""
    return bytes(int(f"{byte:08b}"[::-1], 2) for byte in password)
