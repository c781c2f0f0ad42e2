"""A console session's SSH key in real guests, and their first boot."""

import json
import shutil
import socket
import subprocess
import time
import uuid
from dataclasses import dataclass

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from consoles import ssh
from panel.models import UserScript
from worker.guest import ssh_keys
from worker.nodes.base import AgentUnavailable, Disk, GiB, Image, Machine, Nic, NodeSpec, Seed
from worker.nodes.libvirt import LibvirtNode
from worker.tasks import cloud_init

OTHER_KEY_LINE = "ssh-rsa AAAAB3Nz ada's \\n $(touch x) key"
USER_CLOUD_CONFIG = """
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

    def open_shell(self, address, private_key, timeout_seconds=60):
        """Return a shell on a terminal, signed in with the key. The SSH server may start after the guest agent."""
        target = ssh.SshTarget(address, 22, "root", private_key)
        until = time.monotonic() + timeout_seconds
        while True:
            try:
                return ssh.open_terminal(ssh.connect(target, lambda key: None))
            except ssh.SshRefused as refusal:
                if refusal.close_reason.name == "wrong_password" or time.monotonic() > until:
                    raise
                time.sleep(0.5)


def boot_guest(hypervisor, image, directory, memory):
    """Start a guest as the panel deploys one: root may sign in by key and has one already, and the first boot has a
    time zone, users and scripts."""
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
    first_boot_options = {
        "hostname": image.stem,
        "ssh_keys": [OTHER_KEY_LINE],
        "timezone": "Asia/Tokyo",
        "cloudcfg": USER_CLOUD_CONFIG,
    }
    seed = node.create_seed(
        "keys",
        f"{image.stem}-seed",
        Seed(
            json.dumps({"instance-id": "first", "local-hostname": image.stem}),
            "#cloud-config\n" + json.dumps(cloud_init.build_user_data(first_boot_options, None, SCRIPTS)),
            json.dumps({"version": 2, "ethernets": {"nic0": ethernet}}),
        ),
    )
    machine = Machine(str(uuid.uuid4()), f"keys-{image.stem}", 1, memory, (disk,), (nic,), {"seed": seed})
    node.define(machine)
    node.start(machine.id)
    return Guest(node, machine)


def wait_for_agent(guest, timeout_seconds):
    until = time.monotonic() + timeout_seconds
    while True:
        try:
            return guest.node.agent_ping(guest.machine.id)
        except AgentUnavailable:
            assert time.monotonic() < until, "the guest agent never answered"
            time.sleep(0.5)


def create_key():
    """Return a private key as consoles have it, and its line for the guest."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return private, f"{public} panel-session 1f00aa"


def run_in_shell(channel, command, timeout=30):
    """Return the words that the command prints."""
    channel.settimeout(timeout)
    channel.send(f"echo be''gin; {command}; echo e''nd\n".encode())
    text = b""
    while b"\nend" not in text.replace(b"\r", b""):
        data = channel.recv(4096)
        assert data, text
        text += data
    return text.decode().replace("\r", "").split("begin\n", 1)[1].split("\nend")[0].split()


def assert_first_boot(guest, run, timeout_seconds):
    """INS-46, INS-60, INS-62: with cloud-init the same as on the small system that reads its seed by itself. Scripts in
    their order after the customer's commands, time zone, users, passwords, and what the agent says."""
    until = time.monotonic() + timeout_seconds
    while len(order := run("sh", "-c", "cat /order 2>/dev/null").split()) < 4 and time.monotonic() < until:
        time.sleep(1)
    assert order == ["own", "joined", "one", "two"]
    assert run("date", "+%Z").strip() == "JST"
    assert is_password_valid(run, "ada", "ada's own")
    assert not is_password_valid(run, "root", "a new: password")
    guest.node.agent_set_password(guest.machine.id, "root", "a new: password")
    assert is_password_valid(run, "root", "a new: password")
    assert guest.node.ping_agents([guest.machine.id]) == {guest.machine.id: True}
    [root] = [
        filesystem for filesystem in guest.node.agent_filesystems(guest.machine.id) if filesystem.mountpoint == "/"
    ]
    assert 0 < root.used < root.size <= 3 * GiB


def is_password_valid(run, user, password):
    """Compare with the hash in the guest, whatever its method."""
    [password_hash] = [
        line.split(":")[1] for line in run("cat", "/etc/shadow").splitlines() if line.startswith(f"{user}:")
    ]
    hashing = ["perl", "-e", "print crypt($ARGV[0], $ARGV[1])", password, password_hash]
    return subprocess.run(hashing, check=True, capture_output=True, text=True).stdout == password_hash


@pytest.mark.guest
@pytest.mark.parametrize(
    ("name", "memory", "timeout_seconds"),
    [
        ("tiny", 256, 120),
        pytest.param("debian", 768, 1200, marks=[pytest.mark.debian, pytest.mark.slow_proof("debian")]),
    ],
)
def test_session_key_opens_login_shell_until_removed(name, memory, timeout_seconds, hypervisor, tmp_path, request):
    image = tmp_path / f"{name}.qcow2"
    shutil.copy(request.getfixturevalue(f"{name}_image"), image)
    guest = boot_guest(hypervisor, image, tmp_path, memory)
    try:
        wait_for_agent(guest, timeout_seconds)
        run = lambda *arguments: guest.node.agent_run(guest.machine.id, arguments).output  # noqa: E731
        private, public = create_key()
        for _ in range(2):
            ssh_keys.add_key(guest.node, guest.machine.id, public)
        assert run("cat", "/root/.ssh/authorized_keys").splitlines() == [OTHER_KEY_LINE, public]
        facts = run("stat", "-c", "%a %U %G", "/root/.ssh", "/root/.ssh/authorized_keys").splitlines()
        assert facts == ["700 root root", "600 root root"]
        four, six = guest.machine.nics[0].addresses
        assert socket.getaddrinfo(six, 22)[0][0] == socket.AF_INET6
        for address in (four, six):
            channel = guest.open_shell(address, private)
            assert run_in_shell(channel, "id -u; pwd; echo $TERM; echo $0 $HOME; tty | cut -c1-9; stty size") == [
                *("0", "/root", "xterm-256color"),
                *(("-sh" if name == "tiny" else "-bash"), "/root", "/dev/pts/", "24", "80"),
            ]
            channel.resize_pty(132, 40)
            assert run_in_shell(channel, "sleep 0.2; stty size; echo $PATH")[:2] == ["40", "132"]
            channel.get_transport().close()
        staying = guest.open_shell(four, private)
        ssh_keys.remove_key(guest.node, guest.machine.id, public)
        assert run("cat", "/root/.ssh/authorized_keys").splitlines() == [OTHER_KEY_LINE]
        for address in (four, six):
            with pytest.raises(ssh.SshRefused) as refusal:
                guest.open_shell(address, private)
            assert refusal.value.close_reason.name == "wrong_password"
        assert run_in_shell(staying, "id -u") == ["0"]
        staying.get_transport().close()
        assert_first_boot(guest, run, timeout_seconds)
    finally:
        guest.node.delete(guest.machine.id)
        guest.node.close()
