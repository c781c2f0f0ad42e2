"""VNC consoles that are reachable only through their node: with the real OpenSSH client, and with fake SSH programs."""

import json
import os
import shutil
import stat
import sys

import psutil
import pytest

from consoles import tunnel
from consoles.rfb import encrypt_challenge
from tests.consoles.console_session import PASSWORD
from tests.consoles.ssh_node import SshNode
from tests.consoles.vnc.streams import RANDOM_MEBIBYTE, echo, hash_received, send_random_mebibytes
from tests.support.waiting import wait_until

SSH_PROGRAM = shutil.which("ssh")


@pytest.fixture
def start_ssh_node():
    """Return a function that starts the SSH server of a node."""
    nodes = []

    def start(**options):
        nodes.append(SshNode(**options))
        return nodes[-1]

    yield start
    for server in nodes:
        server.close()


def install_fake_ssh(tmp_path, monkeypatch, script):
    """Put the script first in PATH as `ssh`."""
    program = tmp_path / "ssh"
    program.write_text(script)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def configure_ssh_client(tmp_path, monkeypatch):
    """Return a function that configures the OpenSSH client with known hosts and a key."""
    assert SSH_PROGRAM, "The OpenSSH client is missing: apt install openssh-client."

    def configure(server, known_hosts=None, key=None):
        files = {
            "known_hosts": server.known_hosts_line if known_hosts is None else known_hosts,
            "key": key or server.user_key,
        }
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        (tmp_path / "key").chmod(0o600)
        settings = [
            f"UserKnownHostsFile {tmp_path}/known_hosts",
            "GlobalKnownHostsFile /dev/null",
            f"IdentityFile {tmp_path}/key",
            "IdentitiesOnly yes",
        ]
        (tmp_path / "config").write_text("\n".join(settings) + "\n")
        install_fake_ssh(tmp_path, monkeypatch, f'#!/bin/sh\nexec {SSH_PROGRAM} -F {tmp_path}/config "$@"\n')

    return configure


def list_tunnels():
    """Return the tunnel processes of this process, and all zombies."""
    return [
        child for child in psutil.Process().children() if "-W" in " ".join(get_arguments(child)) or is_zombie(child)
    ]


def get_arguments(process):
    try:
        return process.cmdline()
    except psutil.ZombieProcess:
        return []


def is_zombie(process):
    return process.status() == psutil.STATUS_ZOMBIE


# --- the OpenSSH client


def test_console_through_ssh_ends_tunnel_process(
    open_vnc_console, start_vnc_server, start_ssh_node, configure_ssh_client
):
    server, host = start_vnc_server(echo), start_ssh_node()
    configure_ssh_client(host)
    session = open_vnc_console(server, ssh_jump=host.ssh_jump)
    assert host.forward_targets == [(server.host, server.port)]
    session.viewer.send(b"hello")
    assert session.viewer.read(5) == b"hello"
    assert len(list_tunnels()) == 1
    session.viewer.close()
    session.wait_for_event("ended")
    assert session.stream.close_reason.name == "left"
    wait_until(lambda: not list_tunnels(), "the tunnel to be gone")


def test_tunnel_relays_all_output_and_close_reason(
    open_vnc_console, start_vnc_server, start_ssh_node, configure_ssh_client
):
    host = start_ssh_node()
    configure_ssh_client(host)
    session = open_vnc_console(start_vnc_server(send_random_mebibytes(4)), ssh_jump=host.ssh_jump)
    assert hash_received(session.viewer, 4)
    assert session.viewer.wait_until_closed() == (1000, "The instance closed the console.")
    session.wait_for_event("ended")
    assert session.stream.bytes_out > 4 * len(RANDOM_MEBIBYTE)
    wait_until(lambda: not list_tunnels(), "the tunnel to be gone")


def test_lost_ssh_connection_closes_with_lost_reason(
    open_vnc_console, start_vnc_server, start_ssh_node, configure_ssh_client
):
    host = start_ssh_node()
    configure_ssh_client(host)
    session = open_vnc_console(start_vnc_server(echo), ssh_jump=host.ssh_jump)
    host.disconnect_clients()
    assert session.viewer.wait_until_closed() == (1011, "The connection to the instance was lost.")
    wait_until(lambda: not list_tunnels(), "the tunnel to be gone")


def test_vnc_rejection_is_reported_through_tunnel(
    open_vnc_console, start_vnc_server, start_ssh_node, configure_ssh_client
):
    host = start_ssh_node()
    configure_ssh_client(host)
    session = open_vnc_console(start_vnc_server(echo), node_password="other", ssh_jump=host.ssh_jump, signs_in=False)
    assert "does not accept the panel: Too many security failures" in session.viewer.sign_in(PASSWORD)


def read_connection_error(session):
    message = session.viewer.sign_in(PASSWORD)
    assert session.viewer.wait_until_closed() == (1011, message)
    session.wait_for_event("ended")
    assert session.stream.close_reason.name == "unreachable"
    wait_until(lambda: not list_tunnels(), "the tunnel to be gone")
    return message


def test_unknown_host_key_is_reported(open_vnc_console, start_vnc_server, start_ssh_node, configure_ssh_client):
    host = start_ssh_node()
    configure_ssh_client(host, known_hosts="")
    session = open_vnc_console(start_vnc_server(echo), ssh_jump=host.ssh_jump, signs_in=False)
    assert read_connection_error(session) == "The panel does not know the SSH host key of the hypervisor."
    assert host.forward_targets == []


def test_changed_host_key_is_reported(open_vnc_console, start_vnc_server, start_ssh_node, configure_ssh_client):
    host, other = start_ssh_node(), start_ssh_node()
    configure_ssh_client(
        host, known_hosts=host.known_hosts_line.split()[0] + " " + other.known_hosts_line.split(" ", 1)[1]
    )
    session = open_vnc_console(start_vnc_server(echo), ssh_jump=host.ssh_jump, signs_in=False)
    assert read_connection_error(session) == "The SSH host key of the hypervisor has changed."


def test_rejected_ssh_key_is_reported(open_vnc_console, start_vnc_server, start_ssh_node, configure_ssh_client):
    host, other = start_ssh_node(), start_ssh_node()
    configure_ssh_client(host, key=other.user_key)
    session = open_vnc_console(start_vnc_server(echo), ssh_jump=host.ssh_jump, signs_in=False)
    assert read_connection_error(session) == "The hypervisor does not accept the panel's SSH key."


def test_keyfile_parameter_selects_ssh_key(
    open_vnc_console, start_vnc_server, start_ssh_node, configure_ssh_client, tmp_path
):
    host, other = start_ssh_node(), start_ssh_node()
    configure_ssh_client(host, key=other.user_key)
    named = tmp_path / "a key"
    named.write_text(host.user_key)
    named.chmod(0o600)
    session = open_vnc_console(start_vnc_server(echo), ssh_jump=f"{host.ssh_jump}?keyfile={tmp_path}/a%20key")
    session.viewer.close()
    wait_until(lambda: not list_tunnels(), "the tunnel to be gone")


def test_prohibited_forwarding_is_reported(open_vnc_console, start_vnc_server, start_ssh_node, configure_ssh_client):
    host = start_ssh_node(allows_forwarding=False)
    configure_ssh_client(host)
    session = open_vnc_console(start_vnc_server(echo), ssh_jump=host.ssh_jump, signs_in=False)
    assert (
        read_connection_error(session)
        == "The SSH server of the hypervisor does not let the panel reach the VNC server."
    )


def test_unreachable_vnc_server_is_reported(open_vnc_console, start_vnc_server, start_ssh_node, configure_ssh_client):
    host, server = start_ssh_node(), start_vnc_server(echo)
    configure_ssh_client(host)
    server.close()
    session = open_vnc_console(server, ssh_jump=host.ssh_jump, signs_in=False)
    assert read_connection_error(session) == "The VNC server does not answer."


def test_unreachable_ssh_server_is_reported(open_vnc_console, start_vnc_server, start_ssh_node, configure_ssh_client):
    host = start_ssh_node()
    configure_ssh_client(host)
    host.close()
    session = open_vnc_console(start_vnc_server(echo), ssh_jump=host.ssh_jump, signs_in=False)
    assert read_connection_error(session) == "The hypervisor does not respond."


# --- fake SSH programs


FAKE_SSH_SCRIPT = f"""#!{sys.executable}
import json, os, socket, sys, threading
descriptors = {{n: os.readlink(f"/proc/self/fd/{{n}}") for n in range(256) if os.path.exists(f"/proc/self/fd/{{n}}")}}
with open(os.path.dirname(__file__) + "/seen", "w") as file:
    json.dump([sys.argv[1:], descriptors, os.getpid() == os.getsid(0)], file)
host, port = sys.argv[2].rsplit(":", 1)
screen = socket.create_connection((host.strip("[]"), int(port)))
def copy():
    while data := os.read(0, 65536):
        screen.sendall(data)
threading.Thread(target=copy, daemon=True).start()
while data := screen.recv(65536):
    os.write(1, data)
"""


def test_ssh_process_inherits_only_standard_descriptors(open_vnc_console, start_vnc_server, tmp_path, monkeypatch):
    install_fake_ssh(tmp_path, monkeypatch, FAKE_SSH_SCRIPT)
    server = start_vnc_server(echo)
    with open(os.devnull) as other:
        os.set_inheritable(other.fileno(), True)
        session = open_vnc_console(server, ssh_jump="ssh://panel@node.example:2222")
    arguments, descriptors, own_session = json.loads((tmp_path / "seen").read_text())
    assert arguments[:2] == ["-W", f"[{server.host}]:{server.port}"]
    assert arguments[-6:] == ["-p", "2222", "-l", "panel", "--", "node.example"]
    assert {"BatchMode=yes", "ControlPath=none"} <= set(arguments)
    assert (descriptors["0"], descriptors["0"][:6], descriptors["2"][:4]) == (descriptors["1"], "socket", "pipe")
    assert list(descriptors) == ["0", "1", "2"]
    assert own_session
    session.viewer.close()
    wait_until(lambda: not list_tunnels(), "the tunnel to be gone")


def test_ssh_process_that_ignores_signals_is_killed(open_vnc_console, start_vnc_server, tmp_path, monkeypatch):
    """The program ignores SIGTERM."""
    install_fake_ssh(tmp_path, monkeypatch, "#!/bin/sh\ntrap '' TERM HUP INT PIPE\nwhile :; do sleep 1; done\n")
    session = open_vnc_console(start_vnc_server(echo), ssh_jump="ssh://node.example", signs_in=False)
    session.viewer.send(b"RFB 003.008\n")
    session.viewer.send(b"\2")
    assert session.viewer.read(14) == b"RFB 003.008\n\1\2"
    challenge = session.viewer.read(16)
    session.viewer.send(encrypt_challenge(PASSWORD, challenge))
    wait_until(list_tunnels, "the program to run")
    session.viewer.close()
    session.wait_for_event("ended")
    wait_until(lambda: not list_tunnels(), "the program to be gone")


def test_missing_ssh_program_is_reported(open_vnc_console, start_vnc_server, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    session = open_vnc_console(start_vnc_server(echo), ssh_jump="ssh://node.example", signs_in=False)
    assert (
        session.viewer.sign_in(PASSWORD) == "The panel cannot run the SSH program for the connection to the hypervisor."
    )
    assert session.viewer.wait_until_closed()[0] == 1011


def test_ssh_process_starts_after_browser_sign_in(open_vnc_console, start_vnc_server, tmp_path, monkeypatch):
    install_fake_ssh(tmp_path, monkeypatch, FAKE_SSH_SCRIPT)
    session = open_vnc_console(start_vnc_server(echo), ssh_jump="ssh://node.example", signs_in=False)
    assert session.viewer.sign_in("guessing") == "The password of the console is wrong."
    assert not (tmp_path / "seen").exists()


# --- arguments of ssh


@pytest.mark.parametrize(
    ("ssh_jump", "end"),
    [
        ("ssh://node.example", ["--", "node.example"]),
        ("ssh://root@10.0.0.7", ["-l", "root", "--", "10.0.0.7"]),
        ("ssh://a%40b@[2001:db8::7]:22", ["-p", "22", "-l", "a@b", "--", "2001:db8::7"]),
        ("ssh://node.example?keyfile=-oProxyCommand%3Dx", ["-i", "-oProxyCommand=x", "--", "node.example"]),
    ],
)
def test_ssh_url_is_converted_to_arguments(ssh_jump, end):
    assert tunnel.build_command(ssh_jump, "::1", 5900)[-len(end) :] == end
    assert tunnel.build_command(ssh_jump, "::1", 5900)[:3] == ["ssh", "-W", "[::1]:5900"]


@pytest.mark.parametrize(
    ("ssh_jump", "host", "port"),
    [
        ("ssh://-oProxyCommand=x", "127.0.0.1", 5900),
        ("ssh://-l@node.example", "127.0.0.1", 5900),
        ("ssh://$(x)@node.example", "127.0.0.1", 5900),
        ("ssh://node.example;x", "127.0.0.1", 5900),
        ("ssh://node.example%0a", "127.0.0.1", 5900),
        ("ssh://node.example:port", "127.0.0.1", 5900),
        ("ssh://", "127.0.0.1", 5900),
        ("ssh://[::1", "127.0.0.1", 5900),
        ("ssh://node.example", "", 5900),
        ("ssh://node.example", "-x", 5900),
        ("ssh://node.example", "a b", 5900),
        ("ssh://node.example", "127.0.0.1", "x"),
    ],
)
def test_invalid_ssh_url_or_address_is_rejected(ssh_jump, host, port):
    with pytest.raises(tunnel.TunnelError):
        tunnel.build_command(ssh_jump, host, port)
