"""Who the guest of a shell is."""

import paramiko
import pytest

from tests.consoles.ssh_shell.conftest import echo
from tests.support import ssh_guest as guests


def test_the_host_key_is_learnt(shell, guest):
    server = guest(echo)
    session = shell(server)
    key = server.host_keys[0]
    assert session.line.host_key == guests.public_key_line(key)
    assert session.viewer.says("ready")["fingerprint"] == key.fingerprint


def test_the_known_host_key_is_asked_for(shell, guest):
    """A guest with several keys would show another one first."""
    keys = [paramiko.ECDSAKey.generate(), guests.load_key(guests.new_key()), paramiko.RSAKey.generate(2048)]
    server = guest(echo, *keys)
    for key in keys:
        assert shell(server, host_key=guests.public_key_line(key)).line.host_key == guests.public_key_line(key)


@pytest.mark.parametrize("known", [lambda: guests.load_key(guests.new_key()), paramiko.ECDSAKey.generate])
def test_another_host_key_is_shown_no_credentials(shell, guest, known):
    server = guest(echo)
    session = shell(server, host_key=guests.public_key_line(known()), opens=False)
    assert session.viewer.ended() == (1008, "The host key of the instance has changed. Check why.")
    assert session.viewer.says("ended")["reason"] == "host_key_changed"
    assert [door.tries for door in server.doors] == [0]


def test_what_was_typed_early_does_not_hide_the_reason(shell, guest):
    """The page resizes at once, while the panel still talks to the guest."""
    server = guest(echo)
    for _ in range(5):
        session = shell(server, private_key=guests.new_key(), opens=False)
        session.viewer.tell(type="resize", columns=100, rows=40)
        session.viewer.send(b"impatient")
        assert session.viewer.ended() == (1008, "The instance does not accept the panel's key.")
