"""Changing the plan of a real guest: its disk grows while it runs, processors and memory come with a restart."""

import pytest

from tests.processes.conftest import wait_until

pytestmark = pytest.mark.guest


def test_the_disk_grows_without_a_reboot_and_the_rest_comes_with_a_restart(lab):
    """INS-81, INS-82"""
    group = lab.admin("GET", "/cloud-service/plan-groups")[0]["id"]
    large = {"name": "Small", "plan_group_id": group, "cpu_cores": 2, "ram": 320, "storage": 2}
    plan = lab.admin("POST", "/instance/plans", large)["id"]
    instance = lab.create()
    lab.install(instance, ssh_keys=[lab.key_id])
    ip = lab.show(instance)["primary_public_ip"]["ip"]
    say = lambda command: lab.ssh(ip, command).strip()  # noqa: E731
    boot, memory = say("cat /proc/sys/kernel/random/boot_id"), int(say("awk '/MemTotal/ {print $2}' /proc/meminfo"))
    used = int(say("df -k / | awk 'END {print $2}'"))
    answer = lab.call("POST", f"/api/instance/{instance['id']}/change-plan", {"plan_id": plan})
    lab.finished(answer["task_id"])
    assert int(say("cat /sys/block/vda/size")) * 512 == 2 * 1024**3
    assert int(say("df -k / | awk 'END {print $2}'")) > used * 1.5
    assert say("cat /proc/sys/kernel/random/boot_id") == boot
    assert say("nproc") == "1"
    shown = lab.show(instance)
    assert (shown["storage"], shown["pending_cpu_cores"], shown["pending_ram"]) == (2, 2, 320)
    lab.power(instance, "restart")
    wait_until(lambda: say("cat /proc/sys/kernel/random/boot_id") != boot, "another boot")
    assert say("nproc") == "2"
    assert int(say("awk '/MemTotal/ {print $2}' /proc/meminfo")) > memory + 40_000
    shown = lab.show(instance)
    assert (shown["state"], shown["pending_cpu_cores"], shown["pending_ram"]) == ("running", None, None)
    lab.destroy(instance)
