"""Further disks of a real guest: it sees them come, grow and go while it runs."""

import pytest

from tests.processes.conftest import wait_until

pytestmark = pytest.mark.guest


def test_a_disk_comes_grows_and_goes_while_the_guest_runs(lab):
    instance = lab.create()
    lab.install(instance, ssh_keys=[lab.key_id])
    ip = lab.show(instance)["primary_public_ip"]["ip"]
    say = lambda command: lab.ssh(ip, command).strip()  # noqa: E731
    path = f"/instance/{instance['id']}"
    boot = say("cat /proc/sys/kernel/random/boot_id")
    made = lab.admin("POST", f"{path}/disks", {"size": 1})
    lab.finished(made["task_id"])
    wait_until(lambda: "vdb" in say("ls /sys/block"), "the disk in the guest")
    assert say("cat /sys/block/vdb/serial") == made["disk"]["name"].removesuffix(".qcow2")
    say("echo content > /dev/vdb; sync")
    lab.finished(lab.admin("PATCH", f"{path}/disk/{made['disk']['id']}", {"size": 2})["task_id"])
    assert int(say("cat /sys/block/vdb/size")) * 512 == 2 * 1024**3
    act = lambda action: lab.finished(  # noqa: E731
        lab.call("POST", f"/api{path}/disk/{made['disk']['id']}/{action}")["task_id"]
    )
    act("detach")
    assert say("ls /sys/block | grep -c vdb") == "0"
    act("attach")
    wait_until(lambda: say("head -c 7 /dev/vdb 2>/dev/null; true") == "content", "the disk in the guest")
    assert say("cat /proc/sys/kernel/random/boot_id") == boot
    lab.power(instance, "poweroff")
    lab.power(instance, "start")
    assert say("head -c 7 /dev/vdb") == "content"
    act("delete")
    assert say("ls /sys/block | grep -c vdb") == "0"
    assert len(lab.show(instance)["disks"]) == 1
    lab.destroy(instance)
