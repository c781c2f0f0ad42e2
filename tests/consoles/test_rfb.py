"""The handshake of a VNC connection, without sockets. tests/consoles/vnc has tests with a real client and server."""

import struct

import pytest

from consoles import rfb
from consoles.rfb import BROWSER, NODE


@pytest.mark.parametrize(
    ("challenge", "answer"),
    [
        ("84076f040550eea9341967633b5f3855", "dd96d21781a70da49443279975404dd0"),
        ("6eff78767762ad104e52a2e15fda3a1a", "c448c3c4ba7218ebac29fd6623e85bac"),
    ],
)
def test_challenge_response_matches_recorded_conversations(challenge, answer):
    """Recorded challenges and responses from the test vectors of password crackers."""
    assert rfb.encrypt_challenge("pass1234", bytes.fromhex(challenge)).hex() == answer


def test_challenge_response_uses_first_eight_characters():
    challenge = bytes(range(16))
    assert rfb.encrypt_challenge("password", challenge) == rfb.encrypt_challenge("password and more", challenge)
    assert rfb.encrypt_challenge("password", challenge) != rfb.encrypt_challenge("passwort", challenge)


class RfbDialogue:
    """Plays browser and node from scripted answers, and records the data sent to each."""

    def __init__(self, browser, node=b"", password="session", node_password="node"):
        self.unread = {BROWSER: browser, NODE: node}
        self.sent = {BROWSER: b"", NODE: b""}
        self.handshake, self.passwords = rfb.run_handshake(password, node_password), {BROWSER: password}

    def run(self):
        data = None
        try:
            while True:
                side, message, count = self.handshake.send(data)
                self.sent[side] += message
                if message == self.challenge:
                    self.unread[BROWSER] = (
                        rfb.encrypt_challenge(self.passwords[BROWSER], message) + self.unread[BROWSER]
                    )
                data, self.unread[side] = self.unread[side][:count], self.unread[side][count:]
                assert len(data) == count, f"{side} has no more scripted data"
        except StopIteration:
            return None
        except rfb.HandshakeFailed as failure:
            return failure.close_reason.message

    challenge = b"sixteen byte key"


@pytest.fixture(autouse=True)
def fixed_challenge(monkeypatch):
    monkeypatch.setattr("os.urandom", lambda count: RfbDialogue.challenge[:count])


def encode_reason(text):
    return struct.pack(">I", len(text)) + text


NODE_VERSION_3_8 = b"RFB 003.008\n"


@pytest.mark.parametrize(
    ("viewer_version", "security_types"),
    [
        (b"RFB 003.003\n", b"\0\0\0\2"),
        (b"RFB 003.005\n", b"\0\0\0\2"),
        (b"RFB 003.007\n", b"\1\2"),
        (b"RFB 003.008\n", b"\1\2"),
        (b"RFB 003.889\n", b"\0\0\0\2"),
        (b"RFB 004.001\n", b"\1\2"),
    ],
)
def test_handshake_supports_viewer_version(viewer_version, security_types):
    chosen = b"\2" if len(security_types) == 2 else b""
    dialogue = RfbDialogue(viewer_version + chosen, NODE_VERSION_3_8 + b"\1\1" + rfb.RESULT_OK)
    assert dialogue.run() is None
    assert dialogue.sent[BROWSER] == b"RFB 003.008\n" + security_types + RfbDialogue.challenge + rfb.RESULT_OK
    assert dialogue.sent[NODE] == b"RFB 003.008\n\1"


@pytest.mark.parametrize("version", [b"RFB 003.003\n", b"RFB 003.008\n"])
def test_password_authentication_is_preferred(version):
    old = version.endswith(b"3\n")
    offer = b"\0\0\0\2" if old else b"\2\1\2"
    dialogue = RfbDialogue(b"RFB 003.008\n\2", version + offer + bytes(16) + rfb.RESULT_OK)
    assert dialogue.run() is None
    assert dialogue.sent[NODE] == version + (b"" if old else b"\2") + rfb.encrypt_challenge("node", bytes(16))


def test_no_authentication_is_preferred_without_password():
    dialogue = RfbDialogue(b"RFB 003.008\n\2", NODE_VERSION_3_8 + b"\2\2\1" + rfb.RESULT_OK, node_password="")
    assert dialogue.run() is None
    assert dialogue.sent[NODE] == b"RFB 003.008\n\1"


@pytest.mark.parametrize(
    ("node", "sentence"),
    [
        (b"SSH-2.0-Open", "The server does not speak VNC."),
        (b"RFB xxx.yyy\n", "The server does not speak VNC."),
        (NODE_VERSION_3_8 + b"\0" + encode_reason(b"Busy."), "Busy."),
        (NODE_VERSION_3_8 + b"\0" + encode_reason(b""), "The instance does not accept the console."),
        (NODE_VERSION_3_8 + b"\0" + struct.pack(">I", 1 << 31), "The connection to the instance was lost."),
        (NODE_VERSION_3_8 + b"\2\x13\x10", "The VNC server requires a sign-in method that the panel does not support."),
        (
            b"RFB 003.003\n" + struct.pack(">I", 16),
            "The VNC server requires a sign-in method that the panel does not support.",
        ),
        (b"RFB 003.003\n" + bytes(4) + encode_reason(b"No more."), "No more."),
        (
            b"RFB 003.007\n\1\2" + bytes(16) + rfb.RESULT_FAILED,
            "The VNC server does not accept the panel: no reason given.",
        ),
        (
            NODE_VERSION_3_8 + b"\1\1" + rfb.RESULT_FAILED + encode_reason(b"\xff"),
            "The VNC server does not accept the panel: \ufffd.",
        ),
    ],
)
def test_node_errors_are_forwarded_to_viewer(node, sentence):
    dialogue = RfbDialogue(b"RFB 003.008\n\2", node)
    assert dialogue.run() == sentence
    assert dialogue.sent[BROWSER].endswith(rfb.RESULT_FAILED + encode_reason(sentence.encode()))


def test_viewer_without_password_authentication_is_rejected():
    dialogue = RfbDialogue(b"RFB 003.008\n\1")
    assert dialogue.run() == "The viewer does not sign in with a password."
    assert dialogue.sent[NODE] == b""
