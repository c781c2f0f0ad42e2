"""The script that adds and removes a session's public key in a guest, and the simulated guest's keys."""

import stat
import subprocess
import uuid

import pytest

from worker.guest import ssh_keys
from worker.nodes.base import AgentUnavailable, CommandResult, Disk, GiB, Image, Machine, NodeSpec, Refused
from worker.nodes.simulated import SimulatedNode

SESSION_KEY_LINE, OTHER_KEY_LINE = "ssh-ed25519 AAAAC3Nz panel-session 1", "ssh-rsa AAAAB3Nz ada's \\n $(touch x) key"


# --- the script


class FakeGuest:
    """A guest whose agent runs programs on this machine, with another home for root."""

    def __init__(self, home):
        self.home = home
        self.file = home / ".ssh/authorized_keys"

    def agent_run(self, machine_id, command, stdin="", deadline=30):
        command = [word.replace("~root", str(self.home)) for word in command]
        assert command[2] != ssh_keys.CHANGE_KEYS_SCRIPT
        result = subprocess.run(command, input=stdin.encode(), capture_output=True)
        return CommandResult(result.returncode, (result.stdout + result.stderr).decode())


@pytest.fixture
def fake_guest(tmp_path):
    return FakeGuest(tmp_path)


def get_mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_first_key_creates_private_file(fake_guest):
    for _ in range(2):
        ssh_keys.add_key(fake_guest, "m", SESSION_KEY_LINE + "\n")
        assert fake_guest.file.read_text() == SESSION_KEY_LINE + "\n"
    assert (get_mode(fake_guest.file.parent), get_mode(fake_guest.file)) == (0o700, 0o600)
    assert list(fake_guest.file.parent.iterdir()) == [fake_guest.file]


def test_other_lines_keep_content_and_order(fake_guest):
    before = f'# mine\n\n{OTHER_KEY_LINE}\n  from="10.0.0.1" ssh-rsa \t AAAA\\\n'.encode() + b"ssh-rsa AAAA \xff\xe9\n"
    fake_guest.file.parent.mkdir(mode=0o755)
    fake_guest.file.write_bytes(before)
    fake_guest.file.chmod(0o644)
    ssh_keys.add_key(fake_guest, "m", SESSION_KEY_LINE)
    assert fake_guest.file.read_bytes() == before + SESSION_KEY_LINE.encode() + b"\n"
    assert (get_mode(fake_guest.file.parent), get_mode(fake_guest.file)) == (0o700, 0o600)
    ssh_keys.add_key(fake_guest, "m", "ssh-ed25519 BBBB panel-session 2")
    for _ in range(2):
        ssh_keys.remove_key(fake_guest, "m", SESSION_KEY_LINE)
        assert fake_guest.file.read_bytes() == before + b"ssh-ed25519 BBBB panel-session 2\n"
    ssh_keys.remove_key(fake_guest, "m", "ssh-ed25519 BBBB panel-session 2")
    assert fake_guest.file.read_bytes() == before
    assert not (fake_guest.home / "x").exists()


def test_key_is_added_after_line_without_newline(fake_guest):
    fake_guest.file.parent.mkdir()
    fake_guest.file.write_text(OTHER_KEY_LINE)
    ssh_keys.add_key(fake_guest, "m", SESSION_KEY_LINE)
    assert fake_guest.file.read_text() == f"{OTHER_KEY_LINE}\n{SESSION_KEY_LINE}\n"


def test_removal_matches_complete_line_only(fake_guest):
    lines = [
        SESSION_KEY_LINE + "2",
        "# " + SESSION_KEY_LINE,
        " " + SESSION_KEY_LINE,
        SESSION_KEY_LINE,
        SESSION_KEY_LINE.rsplit(" ", 1)[0],
    ]
    fake_guest.file.parent.mkdir()
    fake_guest.file.write_text("\n".join(lines) + "\n")
    ssh_keys.remove_key(fake_guest, "m", SESSION_KEY_LINE)
    assert fake_guest.file.read_text().splitlines() == [line for line in lines if line != SESSION_KEY_LINE]


def test_removal_creates_no_file(fake_guest):
    ssh_keys.remove_key(fake_guest, "m", SESSION_KEY_LINE)
    assert list(fake_guest.home.iterdir()) == []


def test_symlinked_file_is_changed_in_place(fake_guest):
    elsewhere = fake_guest.home / "kept"
    elsewhere.write_text(OTHER_KEY_LINE + "\n")
    fake_guest.file.parent.mkdir()
    fake_guest.file.symlink_to(elsewhere)
    ssh_keys.add_key(fake_guest, "m", SESSION_KEY_LINE)
    assert fake_guest.file.is_symlink()
    assert elsewhere.read_text() == f"{OTHER_KEY_LINE}\n{SESSION_KEY_LINE}\n"


def test_text_after_newline_is_ignored(fake_guest):
    ssh_keys.add_key(fake_guest, "m", SESSION_KEY_LINE + "\nssh-rsa AAAA intruder")
    assert fake_guest.file.read_text() == SESSION_KEY_LINE + "\n"


def test_concurrent_changes_lose_no_key(fake_guest):
    fake_guest.file.parent.mkdir()
    fake_guest.file.write_text("".join(f"old {n}\n" for n in range(20)))
    script = ssh_keys.CHANGE_KEYS_SCRIPT.replace("~root", str(fake_guest.home))
    jobs = [("put", f"new {n}") for n in range(20)] + [("remove", f"old {n}") for n in range(20)]
    running = [subprocess.Popen(["sh", "-c", script, "sh", operation], stdin=subprocess.PIPE) for operation, _ in jobs]
    for process, (_, key) in zip(running, jobs, strict=True):
        process.communicate(key.encode() + b"\n")
        assert process.returncode == 0
    assert sorted(fake_guest.file.read_text().splitlines()) == sorted(f"new {n}" for n in range(20))


def test_failed_change_reports_reason_and_changes_nothing(fake_guest):
    fake_guest.file.mkdir(parents=True)
    for change in (ssh_keys.add_key, ssh_keys.remove_key):
        with pytest.raises(Refused) as refused:
            change(fake_guest, "m", SESSION_KEY_LINE)
        assert "authorized_keys" in refused.value.detail
        assert "authorized_keys" not in str(refused.value)
    assert [path.name for path in fake_guest.file.parent.iterdir()] == ["authorized_keys"]


@pytest.mark.guest
def test_script_works_in_busybox_shell(fake_guest, busybox, monkeypatch):
    """With busybox alone, without programs of this machine."""
    programs = fake_guest.home / "bin"
    programs.mkdir()
    for name in ("sh", "cp", "mkdir", "touch", "chmod", "mv", "rm", "readlink"):
        (programs / name).symlink_to(busybox)
    monkeypatch.setenv("PATH", str(programs))
    fake_guest.file.parent.mkdir()
    fake_guest.file.write_text(OTHER_KEY_LINE)
    ssh_keys.add_key(fake_guest, "m", SESSION_KEY_LINE)
    assert fake_guest.file.read_text() == f"{OTHER_KEY_LINE}\n{SESSION_KEY_LINE}\n"
    ssh_keys.remove_key(fake_guest, "m", SESSION_KEY_LINE)
    assert fake_guest.file.read_text() == OTHER_KEY_LINE + "\n"


# --- the simulated guest


def test_simulated_guest_stores_authorized_keys(tmp_path):
    file = tmp_path / "image"
    file.write_bytes(b"QFI\xfb" + bytes(20) + GiB.to_bytes(8, "big"))
    node = SimulatedNode(NodeSpec("node", "node", "simulated", "simulated://"), tmp_path)
    node.prepare_pool("pool", "/pool")
    image, disk = Image("system.qcow2", file, 32), Disk("pool", "disk", GiB)
    node.put_image("pool", image)
    node.create_disk(disk, image)
    machine = Machine(str(uuid.uuid4()), "web", 1, 64, (disk,))
    node.define(machine)
    with pytest.raises(AgentUnavailable):
        ssh_keys.add_key(node, machine.id, SESSION_KEY_LINE)
    node.start(machine.id)
    for key in (SESSION_KEY_LINE, OTHER_KEY_LINE, SESSION_KEY_LINE):
        ssh_keys.add_key(node, machine.id, key)
    assert sorted(node.list_authorized_keys(machine.id)) == sorted([SESSION_KEY_LINE, OTHER_KEY_LINE])
    node.power_off(machine.id)
    node.start(machine.id)
    for _ in range(2):
        ssh_keys.remove_key(node, machine.id, SESSION_KEY_LINE)
        assert node.list_authorized_keys(machine.id) == [OTHER_KEY_LINE]
    assert node.agent_run(machine.id, ["sh", "-c", "rm -rf /"]).exit_code == 127
    node.delete(machine.id)
    assert node.list_authorized_keys(machine.id) == []
