"""The opening of a VNC connection, without sockets. tests/consoles/test_screen.py has it with both sides real."""

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
def test_the_response_is_that_of_other_programs(challenge, answer):
    """Recorded conversations, as password crackers test themselves with."""
    assert rfb.encrypt_challenge("pass1234", bytes.fromhex(challenge)).hex() == answer


def test_only_the_first_eight_characters_count():
    challenge = bytes(range(16))
    assert rfb.encrypt_challenge("password", challenge) == rfb.encrypt_challenge("password and more", challenge)
    assert rfb.encrypt_challenge("password", challenge) != rfb.encrypt_challenge("passwort", challenge)


class RfbDialogue:
    """Plays both sides from a script of what each answers, and keeps what each was told."""

    def __init__(self, browser, node=b"", password="session", node_password="node"):
        self.left = {BROWSER: browser, NODE: node}
        self.sent = {BROWSER: b"", NODE: b""}
        self.talk, self.passwords = rfb.run_handshake(password, node_password), {BROWSER: password}

    def run(self):
        data = None
        try:
            while True:
                side, words, count = self.talk.send(data)
                self.sent[side] += words
                if words == self.challenge:
                    self.left[BROWSER] = rfb.encrypt_challenge(self.passwords[BROWSER], words) + self.left[BROWSER]
                data, self.left[side] = self.left[side][:count], self.left[side][count:]
                assert len(data) == count, f"{side} has no more to say"
        except StopIteration:
            return None
        except rfb.HandshakeFailed as failure:
            return failure.close_reason.sentence

    challenge = b"sixteen byte key"


@pytest.fixture(autouse=True)
def known_challenge(monkeypatch):
    monkeypatch.setattr("os.urandom", lambda count: RfbDialogue.challenge[:count])


def reason_bytes(text):
    return struct.pack(">I", len(text)) + text


NODE_8 = b"RFB 003.008\n"


@pytest.mark.parametrize(
    ("announced", "spoken"),
    [
        (b"RFB 003.003\n", b"\0\0\0\2"),
        (b"RFB 003.005\n", b"\0\0\0\2"),
        (b"RFB 003.007\n", b"\1\2"),
        (b"RFB 003.008\n", b"\1\2"),
        (b"RFB 003.889\n", b"\0\0\0\2"),
        (b"RFB 004.001\n", b"\1\2"),
    ],
)
def test_versions_of_viewers(announced, spoken):
    chosen = b"\2" if len(spoken) == 2 else b""
    play = RfbDialogue(announced + chosen, NODE_8 + b"\1\1" + rfb.RESULT_OK)
    assert play.run() is None
    assert play.sent[BROWSER] == b"RFB 003.008\n" + spoken + RfbDialogue.challenge + rfb.RESULT_OK
    assert play.sent[NODE] == b"RFB 003.008\n\1"


@pytest.mark.parametrize("version", [b"RFB 003.003\n", b"RFB 003.008\n"])
def test_a_password_is_preferred_to_none(version):
    old = version.endswith(b"3\n")
    offer = b"\0\0\0\2" if old else b"\2\1\2"
    play = RfbDialogue(b"RFB 003.008\n\2", version + offer + bytes(16) + rfb.RESULT_OK)
    assert play.run() is None
    assert play.sent[NODE] == version + (b"" if old else b"\2") + rfb.encrypt_challenge("node", bytes(16))


def test_without_a_password_none_is_preferred():
    play = RfbDialogue(b"RFB 003.008\n\2", NODE_8 + b"\2\2\1" + rfb.RESULT_OK, node_password="")
    assert play.run() is None
    assert play.sent[NODE] == b"RFB 003.008\n\1"


@pytest.mark.parametrize(
    ("node", "sentence"),
    [
        (b"SSH-2.0-Open", "The server does not speak VNC."),
        (b"RFB xxx.yyy\n", "The server does not speak VNC."),
        (NODE_8 + b"\0" + reason_bytes(b"Busy."), "Busy."),
        (NODE_8 + b"\0" + reason_bytes(b""), "The instance does not accept the console."),
        (NODE_8 + b"\0" + struct.pack(">I", 1 << 31), "The connection to the instance was lost."),
        (NODE_8 + b"\2\x13\x10", "The VNC server requires a sign-in method that the panel does not support."),
        (
            b"RFB 003.003\n" + struct.pack(">I", 16),
            "The VNC server requires a sign-in method that the panel does not support.",
        ),
        (b"RFB 003.003\n" + bytes(4) + reason_bytes(b"No more."), "No more."),
        (
            b"RFB 003.007\n\1\2" + bytes(16) + rfb.RESULT_FAILED,
            "The VNC server does not accept the panel: no reason given.",
        ),
        (
            NODE_8 + b"\1\1" + rfb.RESULT_FAILED + reason_bytes(b"\xff"),
            "The VNC server does not accept the panel: \ufffd.",
        ),
    ],
)
def test_refusals_of_the_node_reach_the_viewer(node, sentence):
    play = RfbDialogue(b"RFB 003.008\n\2", node)
    assert play.run() == sentence
    assert play.sent[BROWSER].endswith(rfb.RESULT_FAILED + reason_bytes(sentence.encode()))


def test_a_viewer_that_will_not_give_a_password():
    play = RfbDialogue(b"RFB 003.008\n\1")
    assert play.run() == "The viewer does not sign in with a password."
    assert play.sent[NODE] == b""
