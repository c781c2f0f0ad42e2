"""Host keys of guests."""

import paramiko
import pytest

from tests.consoles.ssh_shell.terminal import echo
from tests.support import ssh_guest as guests


def test_first_host_key_is_recorded(open_shell, start_ssh_guest):
    server = start_ssh_guest(echo)
    session = open_shell(server)
    key = server.host_keys[0]
    assert session.stream.host_key == guests.public_key_line(key)
    assert session.viewer.wait_for_message("ready")["fingerprint"] == key.fingerprint


def test_known_host_key_type_is_requested(open_shell, start_ssh_guest):
    """A guest with several host keys would present another one by default."""
    keys = [paramiko.ECDSAKey.generate(), guests.load_key(guests.create_key()), paramiko.RSAKey.generate(2048)]
    server = start_ssh_guest(echo, *keys)
    for key in keys:
        assert open_shell(server, host_key=guests.public_key_line(key)).stream.host_key == guests.public_key_line(key)


@pytest.mark.parametrize("known_key", [lambda: guests.load_key(guests.create_key()), paramiko.ECDSAKey.generate])
def test_changed_host_key_gets_no_credentials(open_shell, start_ssh_guest, known_key):
    server = start_ssh_guest(echo)
    session = open_shell(server, host_key=guests.public_key_line(known_key()), waits_for_opened=False)
    assert session.viewer.wait_until_closed() == (1008, "The host key of the instance has changed. Check why.")
    assert session.viewer.wait_for_message("ended")["reason"] == "host_key_changed"
    assert [interface.attempts for interface in server.interfaces] == [0]


def test_early_input_does_not_hide_close_reason(open_shell, start_ssh_guest):
    """The page sends a resize immediately, while the panel still authenticates to the guest."""
    server = start_ssh_guest(echo)
    for _ in range(5):
        session = open_shell(server, private_key=guests.create_key(), waits_for_opened=False)
        session.viewer.send_control(type="resize", columns=100, rows=40)
        session.viewer.send(b"early input")
        assert session.viewer.wait_until_closed() == (1008, "The instance does not accept the panel's key.")
