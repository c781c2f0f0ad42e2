"""The guest agent of a real guest: passwords, keys, addresses, file systems, and an agent that does not answer."""

import subprocess
import time

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.guest

HANG_NOTICED_SECONDS = 15
"""Seconds within which the panel notices that an agent hangs, while somebody looks at the instance."""


def is_password_set(lab, guest, password):
    """Return whether this is root's password, compared as the guest does."""
    entry = lab.ssh(guest["primary_public_ip"]["ip"], "grep ^root: /etc/shadow").split(":")[1]
    hashing = ["openssl", "passwd", "-6", "-salt", entry.split("$")[2], password]
    return subprocess.run(hashing, check=True, capture_output=True, text=True).stdout.strip() == entry


def test_agent_reports_addresses_and_file_systems(lab, guest):
    path = f"/api/instance/{guest['id']}"
    reported = wait_until(lambda: lab.call("GET", f"{path}/guest-ips")["data"], "the agent's report")
    ips = {row["ip"] for row in reported}
    assert {guest["primary_public_ip"]["ip"], guest["primary_public_ipv6"]["ip"]} <= ips
    [root] = [row for row in lab.call("GET", f"{path}/guest-filesystems")["data"] if row["mountpoint"] == "/"]
    total = int(lab.ssh(guest["primary_public_ip"]["ip"], "df -k / | awk 'NR==2 {print $2}'")) * 1024
    assert (root["kind"], abs(root["size"] - total) < total / 20) == ("ext4", True)


def test_password_reset_changes_running_guest(lab, guest):
    """INS-62, INS-63"""
    answer = lab.call("POST", f"/api/instance/{guest['id']}/reset-password")["data"]
    lab.wait_for_task(answer["task_id"])
    assert is_password_set(lab, guest, answer["password"])
    answer = lab.call_admin("POST", f"/instance/{guest['id']}/resetPassword", {"password": "one of my own"})
    lab.wait_for_task(answer["task_id"])
    assert is_password_set(lab, guest, "one of my own")


def test_ssh_key_is_added_to_running_guest(lab, guest, tmp_path):
    key_pair = lab.call("POST", "/api/ssh-key/generate", {"name": "pushed", "algorithm": "ed25519"})
    body = {"ssh_keys": [key_pair["ssh_key"]["id"]]}
    lab.wait_for_task(lab.call("POST", f"/api/instance/{guest['id']}/ssh-keys", body)["task_id"])
    ip = guest["primary_public_ip"]["ip"]
    assert lab.ssh(ip, "tail -n 1 /root/.ssh/authorized_keys").strip() == key_pair["ssh_key"]["public_key"]
    pushed = tmp_path / "pushed"
    pushed.write_text(key_pair["private_key"])
    pushed.chmod(0o600)
    first, lab.key = lab.key, pushed
    try:
        assert lab.ssh(ip, "echo in").strip() == "in"
    finally:
        lab.key = first


def get_agent_state(lab, guest):
    """Return the agent's state, as the instance's pages show it."""
    return lab.call_admin("GET", f"/instance/{guest['id']}/metrics")["agent"]


def is_agent_available(lab, guest):
    return get_agent_state(lab, guest)["available"]


def assert_reset_is_refused(lab, guest):
    paths = {lab.token: f"/api/instance/{guest['id']}/reset-password"}
    paths[lab.operator] = f"/api/v1/instance/{guest['id']}/resetPassword"
    for token, path in paths.items():
        status, answer = lab.installation.call("POST", path, {}, token)
        assert (status, answer["reason"], "data" in answer) == (409, "agent_unavailable", False)


def test_hanging_agent_is_noticed_and_changes_no_password(lab, guest):
    """INS-64, INS-66, INS-96, E2"""
    ip = guest["primary_public_ip"]["ip"]
    answer = lab.call("POST", f"/api/instance/{guest['id']}/reset-password", {"password": "the old one"})["data"]
    lab.wait_for_task(answer["task_id"])
    wait_until(lambda: is_agent_available(lab, guest), "the agent to be seen")
    lab.ssh(ip, "kill -STOP $(pidof qemu-ga)")
    start = time.monotonic()
    wait_until(lambda: not is_agent_available(lab, guest), "the panel to notice that the agent hangs")
    seconds = time.monotonic() - start
    assert get_agent_state(lab, guest) == {"available": False, "reason": "agent_not_reporting"}
    assert seconds < HANG_NOTICED_SECONDS, f"noticed after {seconds:.1f} s"
    before = lab.call("GET", f"/api/instance/{guest['id']}/tasks")["total"]
    assert_reset_is_refused(lab, guest)
    assert lab.call("GET", f"/api/instance/{guest['id']}/tasks")["total"] == before
    lab.ssh(ip, "kill -CONT $(pidof qemu-ga)")
    wait_until(lambda: is_agent_available(lab, guest), "the agent to go on")
    assert is_password_set(lab, guest, "the old one")


def test_stopped_agent_refuses_password_reset_until_started(lab, guest):
    """INS-64, INS-66, E2: at once, also when nobody has looked at the instance for long."""
    ip = guest["primary_public_ip"]["ip"]
    lab.ssh(ip, "mv /usr/sbin/qemu-ga /usr/sbin/away; killall qemu-ga")
    assert_reset_is_refused(lab, guest)
    wait_until(lambda: not is_agent_available(lab, guest), "the panel to show it")
    path = f"/api/instance/{guest['id']}/reset-password"
    lab.ssh(ip, "mv /usr/sbin/away /usr/sbin/qemu-ga")
    answer = wait_until(lambda: lab.installation.call("POST", path, {}, lab.token)[1].get("data"), "the agent")
    lab.wait_for_task(answer["task_id"])
    assert is_password_set(lab, guest, answer["password"])
