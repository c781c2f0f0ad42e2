"""Screens that only their node reaches: through OpenSSH's own client to an SSH server, and through programs in its
place that do what a client may do."""

import json
import os
import shutil
import stat
import sys

import psutil
import pytest

from consoles import tunnel
from consoles.rfb import encrypt_challenge
from tests.consoles.conftest import PASSWORD, wait_until
from tests.consoles.ssh_node import SshNode
from tests.consoles.vnc.conftest import NOISE_BYTES, digest, echo, send_pictures

SSH = shutil.which("ssh")


@pytest.fixture
def node():
    made = []

    def make(**options):
        made.append(SshNode(**options))
        return made[-1]

    yield make
    for server in made:
        server.close()


def install_fake_ssh(tmp_path, monkeypatch, script):
    """The script is what `ssh` means from now on."""
    program = tmp_path / "ssh"
    program.write_text(script)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def client(tmp_path, monkeypatch):
    """OpenSSH's own client with settings of the test: the node that it knows, and the key that it has."""
    assert SSH, "The OpenSSH client is missing: apt install openssh-client."

    def make(server, known=None, key=None):
        files = {"known_hosts": server.known if known is None else known, "key": key or server.user_key}
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
        install_fake_ssh(tmp_path, monkeypatch, f'#!/bin/sh\nexec {SSH} -F {tmp_path}/config "$@"\n')

    return make


def tunnels():
    """Processes of this one that are not gone, also those that ended and were not waited for."""
    return [
        child for child in psutil.Process().children() if "-W" in " ".join(process_arguments(child)) or is_dead(child)
    ]


def process_arguments(process):
    try:
        return process.cmdline()
    except psutil.ZombieProcess:
        return []


def is_dead(process):
    return process.status() == psutil.STATUS_ZOMBIE


# --- OpenSSH's own client


def test_a_screen_is_reached_through_ssh_and_the_process_goes_with_the_console(screen, machine, node, client):
    server, host = machine(echo), node()
    client(host)
    session = screen(server, via=host.via)
    assert host.asked == [(server.host, server.port)]
    session.viewer.send(b"hello")
    assert session.viewer.read(5) == b"hello"
    assert len(tunnels()) == 1
    session.viewer.close()
    session.wait_for("ended")
    assert session.word == "left"
    wait_until(lambda: not tunnels(), "the tunnel to be gone")


def test_everything_comes_through_and_the_machine_s_end_is_told(screen, machine, node, client):
    host = node()
    client(host)
    session = screen(machine(send_pictures(4)), via=host.via)
    assert digest(session.viewer, 4)
    assert session.viewer.ended() == (1000, "The instance closed the console.")
    session.wait_for("ended")
    assert session.line.down > 4 * len(NOISE_BYTES)
    wait_until(lambda: not tunnels(), "the tunnel to be gone")


def test_a_lost_node_is_distinguished_from_an_ended_machine(screen, machine, node, client):
    host = node()
    client(host)
    session = screen(machine(echo), via=host.via)
    host.hang_up()
    assert session.viewer.ended() == (1011, "The connection to the instance was lost.")
    wait_until(lambda: not tunnels(), "the tunnel to be gone")


def test_a_screen_that_turns_the_panel_away_is_quoted_through_a_tunnel(screen, machine, node, client):
    host = node()
    client(host)
    session = screen(machine(echo), node_password="other", via=host.via, signs_in=False)
    assert "does not accept the panel: Too many security failures" in session.viewer.sign_in(PASSWORD)


def refusal(session):
    said = session.viewer.sign_in(PASSWORD)
    assert session.viewer.ended() == (1011, said)
    session.wait_for("ended")
    assert session.word == "unreachable"
    wait_until(lambda: not tunnels(), "the tunnel to be gone")
    return said


def test_a_node_whose_host_key_nobody_knows(screen, machine, node, client):
    host = node()
    client(host, known="")
    session = screen(machine(echo), via=host.via, signs_in=False)
    assert refusal(session) == "The panel does not know the SSH host key of the hypervisor."
    assert host.asked == []


def test_a_node_with_another_host_key(screen, machine, node, client):
    host, other = node(), node()
    client(host, known=host.known.split()[0] + " " + other.known.split(" ", 1)[1])
    session = screen(machine(echo), via=host.via, signs_in=False)
    assert refusal(session) == "The SSH host key of the hypervisor has changed."


def test_a_node_that_does_not_accept_the_panels_key(screen, machine, node, client):
    host, other = node(), node()
    client(host, key=other.user_key)
    session = screen(machine(echo), via=host.via, signs_in=False)
    assert refusal(session) == "The hypervisor does not accept the panel's SSH key."


def test_the_key_may_be_named(screen, machine, node, client, tmp_path):
    host, other = node(), node()
    client(host, key=other.user_key)
    named = tmp_path / "a key"
    named.write_text(host.user_key)
    named.chmod(0o600)
    session = screen(machine(echo), via=f"{host.via}?keyfile={tmp_path}/a%20key")
    session.viewer.close()
    wait_until(lambda: not tunnels(), "the tunnel to be gone")


def test_a_node_that_leads_nowhere(screen, machine, node, client):
    host = node(forwards=False)
    client(host)
    session = screen(machine(echo), via=host.via, signs_in=False)
    assert refusal(session) == "The SSH server of the hypervisor does not let the panel reach the VNC server."


def test_a_screen_that_is_not_there(screen, machine, node, client):
    host, server = node(), machine(echo)
    client(host)
    server.close()
    session = screen(server, via=host.via, signs_in=False)
    assert refusal(session) == "The VNC server does not answer."


def test_a_node_that_is_not_there(screen, machine, node, client):
    host = node()
    client(host)
    host.close()
    session = screen(machine(echo), via=host.via, signs_in=False)
    assert refusal(session) == "The hypervisor does not respond."


# --- other programs in its place


FAKE_SSH = f"""#!{sys.executable}
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


def test_ssh_gets_what_it_needs_and_nothing_else(screen, machine, tmp_path, monkeypatch):
    install_fake_ssh(tmp_path, monkeypatch, FAKE_SSH)
    server = machine(echo)
    with open(os.devnull) as other:
        os.set_inheritable(other.fileno(), True)
        session = screen(server, via="ssh://panel@node.example:2222")
    arguments, descriptors, own_session = json.loads((tmp_path / "seen").read_text())
    assert arguments[:2] == ["-W", f"[{server.host}]:{server.port}"]
    assert arguments[-6:] == ["-p", "2222", "-l", "panel", "--", "node.example"]
    assert {"BatchMode=yes", "ControlPath=none"} <= set(arguments)
    assert (descriptors["0"], descriptors["0"][:6], descriptors["2"][:4]) == (descriptors["1"], "socket", "pipe")
    assert list(descriptors) == ["0", "1", "2"]
    assert own_session
    session.viewer.close()
    wait_until(lambda: not tunnels(), "the tunnel to be gone")


def test_a_client_that_hears_nothing_is_ended_with_the_console(screen, machine, tmp_path, monkeypatch):
    """Also one that does not heed being told."""
    install_fake_ssh(tmp_path, monkeypatch, "#!/bin/sh\ntrap '' TERM HUP INT PIPE\nwhile :; do sleep 1; done\n")
    session = screen(machine(echo), via="ssh://node.example", signs_in=False)
    session.viewer.send(b"RFB 003.008\n")
    session.viewer.send(b"\2")
    assert session.viewer.read(14) == b"RFB 003.008\n\1\2"
    challenge = session.viewer.read(16)
    session.viewer.send(encrypt_challenge(PASSWORD, challenge))
    wait_until(tunnels, "the program to run")
    session.viewer.close()
    session.wait_for("ended")
    wait_until(lambda: not tunnels(), "the program to be gone")


def test_without_the_program_a_sentence_says_so(screen, machine, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    session = screen(machine(echo), via="ssh://node.example", signs_in=False)
    assert (
        session.viewer.sign_in(PASSWORD) == "The panel cannot run the SSH program for the connection to the hypervisor."
    )
    assert session.viewer.ended()[0] == 1011


def test_nothing_runs_before_the_browser_is_admitted(screen, machine, tmp_path, monkeypatch):
    install_fake_ssh(tmp_path, monkeypatch, FAKE_SSH)
    session = screen(machine(echo), via="ssh://node.example", signs_in=False)
    assert session.viewer.sign_in("guessing") == "The password of the console is wrong."
    assert not (tmp_path / "seen").exists()


# --- what becomes an argument


@pytest.mark.parametrize(
    ("via", "end"),
    [
        ("ssh://node.example", ["--", "node.example"]),
        ("ssh://root@10.0.0.7", ["-l", "root", "--", "10.0.0.7"]),
        ("ssh://a%40b@[2001:db8::7]:22", ["-p", "22", "-l", "a@b", "--", "2001:db8::7"]),
        ("ssh://node.example?keyfile=-oProxyCommand%3Dx", ["-i", "-oProxyCommand=x", "--", "node.example"]),
    ],
)
def test_a_target_becomes_arguments(via, end):
    assert tunnel.build_command(via, "::1", 5900)[-len(end) :] == end
    assert tunnel.build_command(via, "::1", 5900)[:3] == ["ssh", "-W", "[::1]:5900"]


@pytest.mark.parametrize(
    ("via", "host", "port"),
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
def test_what_is_no_address_is_no_argument(via, host, port):
    with pytest.raises(tunnel.TunnelError):
        tunnel.build_command(via, host, port)
