"""The opening of a VNC connection (RFC 6143 §7.1 and §7.2), spoken by the panel on both sides.

The browser shows the password of its session, and only then the node is called and shown its own; from the browser's
ClientInit on, bytes are only copied. So a session's password is worth nothing once the session is spent, nobody outside
learns the node's, and minting a session asks nothing of a node.

Nothing here touches a socket. A conversation is a generator that yields `(side, what to send, how many bytes it needs
from that side then)` and is sent those bytes.
"""

import hmac
import os
import struct

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes

from consoles.close_codes import LOST, NOT_ADMITTED, REFUSED

BROWSER, NODE = "browser", "node"

VERSION = b"RFB 003.008\n"
NONE, VNC = 1, 2
"""Ways to sign in."""

OK, WRONG = struct.pack(">I", 0), struct.pack(">I", 1)
LONGEST_REASON = 1000


class Failed(Exception):
    """The conversation cannot go on; `ending` says why."""

    def __init__(self, ending):
        super().__init__(ending.sentence)
        self.ending = ending


def opening(password, node_password):
    """Both halves. A failure is told the browser in RFB's own way before it is raised, so that any viewer shows it."""
    version = yield from greet_browser()
    try:
        yield from admit_browser(version, password)
        yield from sign_in(node_password)
    except Failed as failure:
        yield BROWSER, failure_message(version, failure.ending.sentence), 0
        raise
    yield BROWSER, OK, 0


def greet_browser():
    """The minor version to speak with the browser."""
    return minor((yield BROWSER, VERSION, 12), "browser")


def minor(greeting, whose):
    """3, 7 or 8 of RFB 3.x; what others announce is spoken as 3.3 (§7.1.1), and newer ones as 3.8."""
    try:
        name, major, number = greeting[:4], int(greeting[4:7]), int(greeting[8:11])
    except ValueError:
        name = b""
    if name != b"RFB " or greeting[11:] != b"\n":
        raise Failed(REFUSED.saying(f"The {whose} does not speak VNC."))
    if major > 3:
        return 8
    return number if number in (7, 8) else 3


def admit_browser(version, password):
    """The browser must know the session's password; one session has one attempt."""
    if version == 3:
        yield BROWSER, struct.pack(">I", VNC), 0
    else:
        chosen = yield BROWSER, bytes([1, VNC]), 1
        if chosen[0] != VNC:
            raise Failed(NOT_ADMITTED.saying("The viewer does not sign in with a password."))
    challenge = os.urandom(16)
    answer = yield BROWSER, challenge, 16
    if not password or not hmac.compare_digest(answer, response(password, challenge)):
        raise Failed(NOT_ADMITTED)


def failure_message(version, sentence):
    """SecurityResult; before 3.8 it carries no reason (§7.1.3)."""
    text = sentence.encode()
    return WRONG + (struct.pack(">I", len(text)) + text if version == 8 else b"")


def sign_in(password):
    """The panel as a client of the node's VNC server."""
    version = minor((yield NODE, b"", 12), "machine's screen")
    yield NODE, b"RFB 003.00%d\n" % version, 0
    kind = yield from choose_old() if version == 3 else choose(password)
    if kind == VNC:
        challenge = yield NODE, b"", 16
        yield NODE, response(password, challenge), 0
    if (kind == VNC or version == 8) and (yield NODE, b"", 4) != OK:
        said = (yield from reason()) if version == 8 else ""
        raise Failed(REFUSED.saying(f"The machine's screen does not accept the panel: {said or 'no reason given'}."))


def choose(password):
    (count,) = yield NODE, b"", 1
    if not count:
        yield from turned_away()
    offered = yield NODE, b"", count
    kind = next((kind for kind in ((VNC, NONE) if password else (NONE, VNC)) if kind in offered), None)
    if kind is None:
        raise Failed(REFUSED.saying("The machine's screen asks for a way to sign in that the panel does not speak."))
    yield NODE, bytes([kind]), 0
    return kind


def choose_old():
    """In 3.3 the server decides."""
    (kind,) = struct.unpack(">I", (yield NODE, b"", 4))
    if kind == 0:
        yield from turned_away()
    if kind not in (NONE, VNC):
        raise Failed(REFUSED.saying("The machine's screen asks for a way to sign in that the panel does not speak."))
    return kind


def turned_away():
    said = yield from reason()
    raise Failed(REFUSED.saying(said or REFUSED.sentence))


def reason():
    (length,) = struct.unpack(">I", (yield NODE, b"", 4))
    if length > LONGEST_REASON:
        raise Failed(LOST)
    return (yield NODE, b"", length).decode("utf-8", "replace").strip() if length else ""


def response(password, challenge):
    """§7.2.2: the challenge, encrypted by DES with the password."""
    key = des_key(password.encode()[:8].ljust(8, b"\0"))
    return Cipher(TripleDES(key * 3), modes.ECB()).encryptor().update(challenge)  # three equal keys: plain DES


def des_key(eight):
    """VNC gives DES the bits of each byte in reverse."""
    return bytes(int(f"{byte:08b}"[::-1], 2) for byte in eight)
