"""Snapshots of a real guest, with and without its memory."""

import pytest

pytestmark = pytest.mark.guest


def test_rollback_restores_disk_and_memory(lab, guest):
    ip, path = guest["primary_public_ip"]["ip"], f"/api/instance/{guest['id']}/snapshot"
    run = lambda command: lab.ssh(ip, command).strip()  # noqa: E731
    do = lambda method, action="", **body: lab.wait_for_task(lab.call(method, path + action, body)["task_id"])  # noqa: E731
    run("echo one > /root/file; sync")
    do("POST", snapname="disks", vmstate=False)
    run("echo two > /root/file; sync")
    boot = lab.read_boot_id(ip)
    do("POST", snapname="memory", vmstate=True)
    run("echo three > /root/file; sync; echo here > /tmp/volatile")
    do("POST", "/rollback", snapname="memory")
    assert run("cat /root/file; cat /proc/sys/kernel/random/boot_id").split() == ["two", boot]
    do("POST", "/rollback", snapname="disks")
    assert lab.get_instance(guest)["state"] == "running"
    file, booted = run("cat /root/file; cat /proc/sys/kernel/random/boot_id").split()
    assert (file, booted != boot) == ("one", True)
    snapshots = lab.call("GET", f"{path}s")["snapshots"]
    assert [(snapshot["name"], snapshot["vmstate"], snapshot["parent"]) for snapshot in snapshots] == [
        ("disks", False, None),
        ("memory", True, "disks"),
    ]
    for name in ("disks", "memory"):
        do("DELETE", snapname=name)
    assert run("cat /root/file") == "one"
