"""A session's public key in a guest: what the script does to files, and that the key opens the door on real guests."""

import json
import shutil
import socket
import stat
import subprocess
import time
import uuid
from dataclasses import dataclass

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from consoles import ssh
from panel.models import UserScript
from worker import seeds
from worker.guests import debian, keys
from worker.nodes.base import AgentSilent, Disk, Finished, GiB, Image, Machine, Nic, NodeSpec, Refused, Seed
from worker.nodes.libvirt import LibvirtNode
from worker.nodes.simulated import SimulatedNode

KEY, OTHER = "ssh-ed25519 AAAAC3Nz panel-session 1", "ssh-rsa AAAAB3Nz ada's \\n $(touch x) key"


# --- the script


class Host:
    """A guest whose agent runs programs on this machine, with root's home somewhere else."""

    def __init__(self, home):
        self.home = home
        self.file = home / ".ssh/authorized_keys"

    def agent_run(self, machine_id, command, stdin="", deadline=30):
        command = [word.replace("~root", str(self.home)) for word in command]
        assert command[2] != keys.SCRIPT
        done = subprocess.run(command, input=stdin.encode(), capture_output=True)
        return Finished(done.returncode, (done.stdout + done.stderr).decode())


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_the_first_key_makes_the_file_for_nobody_elses_eyes(host):
    for _ in range(2):
        keys.put(host, "m", KEY + "\n")
        assert host.file.read_text() == KEY + "\n"
    assert (mode(host.file.parent), mode(host.file)) == (0o700, 0o600)
    assert list(host.file.parent.iterdir()) == [host.file]


def test_other_keys_stay_as_they_are_and_in_their_order(host):
    before = f'# mine\n\n{OTHER}\n  from="10.0.0.1" ssh-rsa \t AAAA\\\n'.encode() + b"ssh-rsa AAAA \xff\xe9\n"
    host.file.parent.mkdir(mode=0o755)
    host.file.write_bytes(before)
    host.file.chmod(0o644)
    keys.put(host, "m", KEY)
    assert host.file.read_bytes() == before + KEY.encode() + b"\n"
    assert (mode(host.file.parent), mode(host.file)) == (0o700, 0o600)
    keys.put(host, "m", "ssh-ed25519 BBBB panel-session 2")
    for _ in range(2):
        keys.remove(host, "m", KEY)
        assert host.file.read_bytes() == before + b"ssh-ed25519 BBBB panel-session 2\n"
    keys.remove(host, "m", "ssh-ed25519 BBBB panel-session 2")
    assert host.file.read_bytes() == before
    assert not (host.home / "x").exists()


def test_a_last_line_without_its_end_stays_a_line_of_its_own(host):
    host.file.parent.mkdir()
    host.file.write_text(OTHER)
    keys.put(host, "m", KEY)
    assert host.file.read_text() == f"{OTHER}\n{KEY}\n"


def test_only_the_very_line_is_taken_out(host):
    lines = [KEY + "2", "# " + KEY, " " + KEY, KEY, KEY.rsplit(" ", 1)[0]]
    host.file.parent.mkdir()
    host.file.write_text("\n".join(lines) + "\n")
    keys.remove(host, "m", KEY)
    assert host.file.read_text().splitlines() == [line for line in lines if line != KEY]


def test_nothing_is_made_where_there_was_nothing_to_take_out(host):
    keys.remove(host, "m", KEY)
    assert list(host.home.iterdir()) == []


def test_a_file_that_lies_elsewhere_stays_there(host):
    elsewhere = host.home / "kept"
    elsewhere.write_text(OTHER + "\n")
    host.file.parent.mkdir()
    host.file.symlink_to(elsewhere)
    keys.put(host, "m", KEY)
    assert host.file.is_symlink()
    assert elsewhere.read_text() == f"{OTHER}\n{KEY}\n"


def test_what_follows_a_line_break_is_no_key(host):
    keys.put(host, "m", KEY + "\nssh-rsa AAAA intruder")
    assert host.file.read_text() == KEY + "\n"


def test_many_at_once_lose_nothing(host):
    host.file.parent.mkdir()
    host.file.write_text("".join(f"old {n}\n" for n in range(20)))
    script = keys.SCRIPT.replace("~root", str(host.home))
    jobs = [("put", f"new {n}") for n in range(20)] + [("remove", f"old {n}") for n in range(20)]
    running = [subprocess.Popen(["sh", "-c", script, "sh", what], stdin=subprocess.PIPE) for what, _ in jobs]
    for process, (_, key) in zip(running, jobs, strict=True):
        process.communicate(key.encode() + b"\n")
        assert process.returncode == 0
    assert sorted(host.file.read_text().splitlines()) == sorted(f"new {n}" for n in range(20))


def test_a_guest_that_cannot_do_it_says_why_and_keeps_what_it_had(host):
    host.file.mkdir(parents=True)
    for change in (keys.put, keys.remove):
        with pytest.raises(Refused) as refused:
            change(host, "m", KEY)
        assert "authorized_keys" in refused.value.detail
        assert "authorized_keys" not in str(refused.value)
    assert [path.name for path in host.file.parent.iterdir()] == ["authorized_keys"]


@pytest.mark.guest
def test_the_shell_of_the_tiny_guest_does_the_same(host, guest_cache, tiny_image, monkeypatch):
    """busybox alone, without programs of this machine."""
    busybox = next(guest_cache.glob("bookworm-*/bin/busybox"))
    programs = host.home / "bin"
    programs.mkdir()
    for name in ("sh", "cp", "mkdir", "touch", "chmod", "mv", "rm", "readlink"):
        (programs / name).symlink_to(busybox)
    monkeypatch.setenv("PATH", str(programs))
    host.file.parent.mkdir()
    host.file.write_text(OTHER)
    keys.put(host, "m", KEY)
    assert host.file.read_text() == f"{OTHER}\n{KEY}\n"
    keys.remove(host, "m", KEY)
    assert host.file.read_text() == OTHER + "\n"


# --- guests on paper


def test_a_simulated_guest_keeps_the_keys_it_was_given(tmp_path):
    file = tmp_path / "image"
    file.write_bytes(b"QFI\xfb" + bytes(20) + GiB.to_bytes(8, "big"))
    node = SimulatedNode(NodeSpec("node", "node", "simulated", "simulated://"), tmp_path)
    node.prepare_pool("pool", "/pool")
    image, disk = Image("system.qcow2", file, 32), Disk("pool", "disk", GiB)
    node.put_image("pool", image)
    node.create_disk(disk, image)
    machine = Machine(str(uuid.uuid4()), "web", 1, 64, (disk,))
    node.define(machine)
    with pytest.raises(AgentSilent):
        keys.put(node, machine.id, KEY)
    node.start(machine.id)
    for key in (KEY, OTHER, KEY):
        keys.put(node, machine.id, key)
    assert sorted(node.authorized_keys(machine.id)) == sorted([KEY, OTHER])
    node.power_off(machine.id)
    node.start(machine.id)
    for _ in range(2):
        keys.remove(node, machine.id, KEY)
        assert node.authorized_keys(machine.id) == [OTHER]
    assert node.agent_run(machine.id, ["sh", "-c", "rm -rf /"]).exit_code == 127
    node.delete(machine.id)
    assert node.authorized_keys(machine.id) == []


# --- real guests


THEIRS = """
users: [{name: ada, lock_passwd: false, plain_text_passwd: "ada's own"}]
runcmd: ["echo own >>/order"]
"""
SCRIPTS = (
    UserScript(type="sh", shebang="", content="echo one >>/order"),
    UserScript(type="cloud-init", shebang="", content="runcmd: [[sh, -c, 'echo joined >>/order']]"),
    UserScript(type="bash", shebang="", content="#!/bin/sh\necho two >>/order\n"),
)


@dataclass(frozen=True)
class Guest:
    node: LibvirtNode
    machine: Machine

    def opens(self, address, private_key, patience=60):
        """The shell on a terminal that the key opens. A guest's SSH server may come up after its agent."""
        wanted = ssh.Guest(address, 22, "root", private_key)
        until = time.monotonic() + patience
        while True:
            try:
                return ssh.terminal(ssh.connect(wanted, lambda key: None))
            except ssh.Refusal as refusal:
                if refusal.ending.word == "wrong_password" or time.monotonic() > until:
                    raise
                time.sleep(0.5)


def booted(hypervisor, image, directory, memory):
    """A guest as the panel deploys one: root may sign in by key, and has one already; and there is more in its first
    boot."""
    node = LibvirtNode(NodeSpec("node", "node", "libvirt", hypervisor.uri), directory)
    node.prepare_pool("keys", str(hypervisor.directory / "keys"))
    node.put_image("keys", Image(image.name, image, image.stat().st_size))
    disk = Disk("keys", f"{image.stem}-disk", 3 * GiB)
    node.create_disk(disk, Image(image.name, image, image.stat().st_size))
    gateways = [gateway.split("/") for gateway in (hypervisor.network.gateway4, hypervisor.network.gateway6)]
    addresses = [f"{gateway}{memory % 89 + 10}" for gateway, _ in gateways]
    nic = Nic(f"52:54:00:00:78:{memory % 89 + 10}", "public", tuple(addresses))
    ethernet = {
        "match": {"macaddress": nic.mac},
        "addresses": [f"{address}/{length}" for address, (_, length) in zip(addresses, gateways, strict=True)],
    }
    wanted = {"hostname": image.stem, "ssh_keys": [OTHER], "timezone": "Asia/Tokyo", "cloudcfg": THEIRS}
    seed = node.write_seed(
        "keys",
        f"{image.stem}-seed",
        Seed(
            json.dumps({"instance-id": "first", "local-hostname": image.stem}),
            "#cloud-config\n" + json.dumps(seeds.user_data(wanted, None, SCRIPTS)),
            json.dumps({"version": 2, "ethernets": {"nic0": ethernet}}),
        ),
    )
    machine = Machine(str(uuid.uuid4()), f"keys-{image.stem}", 1, memory, (disk,), (nic,), {"seed": seed})
    node.define(machine)
    node.start(machine.id)
    return Guest(node, machine)


def wait_for_agent(guest, patience):
    until = time.monotonic() + patience
    while True:
        try:
            return guest.node.agent_ping(guest.machine.id)
        except AgentSilent:
            assert time.monotonic() < until, "the guest agent never answered"
            time.sleep(0.5)


def new_key():
    """The private key as consoles have it, and the line for the guest."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return private, f"{public} panel-session 1f00aa"


def said(channel, command, patience=30):
    """What the shell prints between two marks that are not in the command itself."""
    channel.settimeout(patience)
    channel.send(f"echo be''gin; {command}; echo e''nd\n".encode())
    text = b""
    while b"\nend" not in text.replace(b"\r", b""):
        data = channel.recv(4096)
        assert data, text
        text += data
    return text.decode().replace("\r", "").split("begin\n", 1)[1].split("\nend")[0].split()


def first_boot_is_what_was_asked(guest, run, patience):
    """INS-46, INS-60, INS-62: with cloud-init the same as on the small system that reads its seed by itself. Scripts in
    their order after the customer's commands, time zone, users, passwords, and what the agent says."""
    until = time.monotonic() + patience
    while len(order := run("sh", "-c", "cat /order 2>/dev/null").split()) < 4 and time.monotonic() < until:
        time.sleep(1)
    assert order == ["own", "joined", "one", "two"]
    assert run("date", "+%Z").strip() == "JST"
    assert signs_in(run, "ada", "ada's own")
    assert not signs_in(run, "root", "a new: password")
    guest.node.agent_set_password(guest.machine.id, "root", "a new: password")
    assert signs_in(run, "root", "a new: password")
    assert guest.machine.id in guest.node.agents()
    [root] = [each for each in guest.node.agent_filesystems(guest.machine.id) if each.mountpoint == "/"]
    assert 0 < root.used < root.size <= 3 * GiB


def signs_in(run, user, password):
    """Compares with the hash that the guest keeps, in whatever way it was made."""
    [kept] = [line.split(":")[1] for line in run("cat", "/etc/shadow").splitlines() if line.startswith(f"{user}:")]
    hashing = ["perl", "-e", "print crypt($ARGV[0], $ARGV[1])", password, kept]
    return subprocess.run(hashing, check=True, capture_output=True, text=True).stdout == kept


@pytest.mark.guest
@pytest.mark.parametrize(("name", "memory", "patience"), [("tiny", 256, 120), ("debian", 768, 1200)])
def test_the_key_opens_a_login_shell_until_it_is_taken_out(
    name, memory, patience, hypervisor, guest_cache, tmp_path, request
):
    image = tmp_path / f"{name}.qcow2"
    if name == "tiny":
        shutil.copy(request.getfixturevalue("tiny_image"), image)
    else:
        debian.build(image, cache=guest_cache, log=lambda line: None)
    guest = booted(hypervisor, image, tmp_path, memory)
    try:
        wait_for_agent(guest, patience)
        run = lambda *words: guest.node.agent_run(guest.machine.id, words).output  # noqa: E731
        private, public = new_key()
        for _ in range(2):
            keys.put(guest.node, guest.machine.id, public)
        assert run("cat", "/root/.ssh/authorized_keys").splitlines() == [OTHER, public]
        facts = run("stat", "-c", "%a %U %G", "/root/.ssh", "/root/.ssh/authorized_keys").splitlines()
        assert facts == ["700 root root", "600 root root"]
        four, six = guest.machine.nics[0].addresses
        assert socket.getaddrinfo(six, 22)[0][0] == socket.AF_INET6
        for address in (four, six):
            channel = guest.opens(address, private)
            assert said(channel, "id -u; pwd; echo $TERM; echo $0 $HOME; tty | cut -c1-9; stty size") == [
                *("0", "/root", "xterm-256color"),
                *(("-sh" if name == "tiny" else "-bash"), "/root", "/dev/pts/", "24", "80"),
            ]
            channel.resize_pty(132, 40)
            assert said(channel, "sleep 0.2; stty size; echo $PATH")[:2] == ["40", "132"]
            channel.get_transport().close()
        staying = guest.opens(four, private)
        keys.remove(guest.node, guest.machine.id, public)
        assert run("cat", "/root/.ssh/authorized_keys").splitlines() == [OTHER]
        for address in (four, six):
            with pytest.raises(ssh.Refusal) as refusal:
                guest.opens(address, private)
            assert refusal.value.ending.word == "wrong_password"
        assert said(staying, "id -u") == ["0"]
        staying.get_transport().close()
        first_boot_is_what_was_asked(guest, run, patience)
    finally:
        guest.node.delete(guest.machine.id)
        guest.node.close()
