"""Additional disks of a real guest: attached, resized and detached while it runs."""

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.guest


def test_disk_is_attached_grown_and_detached_while_guest_runs(lab, guest):
    ip = guest["primary_public_ip"]["ip"]
    run = lambda command: lab.ssh(ip, command).strip()  # noqa: E731
    path = f"/instance/{guest['id']}"
    boot = lab.read_boot_id(ip)
    added = lab.call_admin("POST", f"{path}/disks", {"size": 1})
    lab.wait_for_task(added["task_id"])
    wait_until(lambda: "vdb" in run("ls /sys/block"), "the disk in the guest")
    assert run("cat /sys/block/vdb/serial") == added["disk"]["name"].removesuffix(".qcow2")
    run("echo content > /dev/vdb; sync")
    lab.wait_for_task(lab.call_admin("PATCH", f"{path}/disk/{added['disk']['id']}", {"size": 2})["task_id"])
    assert int(run("cat /sys/block/vdb/size")) * 512 == 2 * 1024**3
    change = lambda action: lab.wait_for_task(  # noqa: E731
        lab.call("POST", f"/api{path}/disk/{added['disk']['id']}/{action}")["task_id"]
    )
    change("detach")
    assert run("ls /sys/block | grep -c vdb") == "0"
    change("attach")
    wait_until(lambda: run("head -c 7 /dev/vdb 2>/dev/null; true") == "content", "the disk in the guest")
    assert lab.read_boot_id(ip) == boot
    lab.run_power_action(guest, "poweroff")
    lab.run_power_action(guest, "start")
    assert run("head -c 7 /dev/vdb") == "content"
    change("delete")
    assert run("ls /sys/block | grep -c vdb") == "0"
    assert len(lab.get_instance(guest)["disks"]) == 1
