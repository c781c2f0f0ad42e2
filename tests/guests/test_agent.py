"""What the guest agent does and says on a real guest: passwords, keys, addresses, file systems; and when it is away."""

import subprocess
import time

import pytest

from tests.processes.conftest import wait_until

pytestmark = pytest.mark.guest

NOTICED_SECONDS = 15
"""Until when an agent that hangs is noticed, of an instance that somebody looks at."""


@pytest.fixture(scope="module")
def guest(lab):
    """A running instance whose agent was seen."""
    instance = lab.create()
    lab.install(instance, ssh_keys=[lab.key_id])
    wait_until(lambda: lab.call("GET", f"/api/instance/{instance['id']}/guest-ips")["data"], "the agent's report")
    yield lab.show(instance)
    lab.destroy(instance)


def is_password_set(lab, guest, password):
    """Whether root's password is that one, as the guest compares."""
    entry = lab.ssh(guest["primary_public_ip"]["ip"], "grep ^root: /etc/shadow").split(":")[1]
    hashing = ["openssl", "passwd", "-6", "-salt", entry.split("$")[2], password]
    return subprocess.run(hashing, check=True, capture_output=True, text=True).stdout.strip() == entry


def test_what_the_guest_says(lab, guest):
    path = f"/api/instance/{guest['id']}"
    ips = {row["ip"] for row in lab.call("GET", f"{path}/guest-ips")["data"]}
    assert {guest["primary_public_ip"]["ip"], guest["primary_public_ipv6"]["ip"]} <= ips
    [root] = [row for row in lab.call("GET", f"{path}/guest-filesystems")["data"] if row["mountpoint"] == "/"]
    total = int(lab.ssh(guest["primary_public_ip"]["ip"], "df -k / | awk 'NR==2 {print $2}'")) * 1024
    assert (root["kind"], abs(root["size"] - total) < total / 20) == ("ext4", True)


def test_a_password_is_set_in_the_running_guest(lab, guest):
    """INS-62, INS-63"""
    answer = lab.call("POST", f"/api/instance/{guest['id']}/reset-password")["data"]
    lab.finished(answer["task_id"])
    assert is_password_set(lab, guest, answer["password"])
    answer = lab.admin("POST", f"/instance/{guest['id']}/resetPassword", {"password": "one of my own"})
    lab.finished(answer["task_id"])
    assert is_password_set(lab, guest, "one of my own")


def test_a_key_is_pushed_into_the_running_guest(lab, guest, tmp_path):
    made = lab.call("POST", "/api/ssh-key/generate", {"name": "pushed", "algorithm": "ed25519"})
    body = {"ssh_keys": [made["ssh_key"]["id"]]}
    lab.finished(lab.call("POST", f"/api/instance/{guest['id']}/ssh-keys", body)["task_id"])
    ip = guest["primary_public_ip"]["ip"]
    assert lab.ssh(ip, "tail -n 1 /root/.ssh/authorized_keys").strip() == made["ssh_key"]["public_key"]
    pushed = tmp_path / "pushed"
    pushed.write_text(made["private_key"])
    pushed.chmod(0o600)
    first, lab.key = lab.key, pushed
    try:
        assert lab.ssh(ip, "echo in").strip() == "in"
    finally:
        lab.key = first


def get_agent_state(lab, guest):
    """What somebody who looks at the instance is told of its agent."""
    return lab.admin("GET", f"/instance/{guest['id']}/metrics")["agent"]


def is_available(lab, guest):
    return get_agent_state(lab, guest)["available"]


def is_reset_refused(lab, guest):
    paths = {lab.token: f"/api/instance/{guest['id']}/reset-password"}
    paths[lab.operator] = f"/api/v1/instance/{guest['id']}/resetPassword"
    for token, path in paths.items():
        status, answer = lab.at.call("POST", path, {}, token)
        assert (status, answer["reason"], "data" in answer) == (409, "agent_unavailable", False)


def test_an_agent_that_hangs_is_noticed_and_changes_nothing_later(lab, guest):
    """INS-64, INS-66, INS-96, E2"""
    ip = guest["primary_public_ip"]["ip"]
    answer = lab.call("POST", f"/api/instance/{guest['id']}/reset-password", {"password": "the old one"})["data"]
    lab.finished(answer["task_id"])
    wait_until(lambda: is_available(lab, guest), "the agent to be seen")
    lab.ssh(ip, "kill -STOP $(pidof qemu-ga)")
    began = time.monotonic()
    wait_until(lambda: not is_available(lab, guest), "the panel to notice that the agent hangs")
    noticed = time.monotonic() - began
    assert get_agent_state(lab, guest) == {"available": False, "reason": "agent_not_reporting"}
    assert noticed < NOTICED_SECONDS, f"noticed after {noticed:.1f} s"
    before = lab.call("GET", f"/api/instance/{guest['id']}/tasks")["total"]
    is_reset_refused(lab, guest)
    assert lab.call("GET", f"/api/instance/{guest['id']}/tasks")["total"] == before
    lab.ssh(ip, "kill -CONT $(pidof qemu-ga)")
    wait_until(lambda: is_available(lab, guest), "the agent to go on")
    assert is_password_set(lab, guest, "the old one")


def test_an_agent_that_was_stopped_refuses_until_it_is_back(lab, guest):
    """INS-64, INS-66, E2: at once, however long nobody has looked."""
    ip = guest["primary_public_ip"]["ip"]
    lab.ssh(ip, "mv /usr/sbin/qemu-ga /usr/sbin/away; killall qemu-ga")
    is_reset_refused(lab, guest)
    wait_until(lambda: not is_available(lab, guest), "the panel to show it")
    path = f"/api/instance/{guest['id']}/reset-password"
    lab.ssh(ip, "mv /usr/sbin/away /usr/sbin/qemu-ga")
    answer = wait_until(lambda: lab.at.call("POST", path, {}, lab.token)[1].get("data"), "the agent")
    lab.finished(answer["task_id"])
    assert is_password_set(lab, guest, answer["password"])
