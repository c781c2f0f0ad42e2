"""Snapshots of a real guest: it returns to what it was, with or without its memory."""

import pytest

pytestmark = pytest.mark.guest


def test_a_guest_returns_to_what_it_was(lab):
    instance = lab.create()
    lab.install(instance, ssh_keys=[lab.key_id])
    ip, path = lab.show(instance)["primary_public_ip"]["ip"], f"/api/instance/{instance['id']}/snapshot"
    say = lambda command: lab.ssh(ip, command).strip()  # noqa: E731
    do = lambda method, action="", **body: lab.finished(lab.call(method, path + action, body)["task_id"])  # noqa: E731
    say("echo one > /root/file; sync")
    do("POST", snapname="disks", vmstate=False)
    say("echo two > /root/file; sync")
    boot = say("cat /proc/sys/kernel/random/boot_id")
    do("POST", snapname="memory", vmstate=True)
    say("echo three > /root/file; sync; echo here > /tmp/volatile")
    do("POST", "/rollback", snapname="memory")
    assert say("cat /root/file; cat /proc/sys/kernel/random/boot_id").split() == ["two", boot]
    do("POST", "/rollback", snapname="disks")
    assert lab.show(instance)["state"] == "running"
    file, booted = say("cat /root/file; cat /proc/sys/kernel/random/boot_id").split()
    assert (file, booted != boot) == ("one", True)
    kept = lab.call("GET", f"{path}s")["snapshots"]
    assert [(each["name"], each["vmstate"], each["parent"]) for each in kept] == [
        ("disks", False, None),
        ("memory", True, "disks"),
    ]
    for name in ("disks", "memory"):
        do("DELETE", snapname=name)
    assert say("cat /root/file") == "one"
    lab.destroy(instance)
