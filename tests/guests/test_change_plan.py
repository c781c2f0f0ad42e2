"""Changing the plan of a real guest: its disk grows while it runs, processors and memory come with a restart."""

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.guest

MEMORY_COMMAND = "awk '/MemTotal/ {print $2}' /proc/meminfo"
ROOT_SIZE_COMMAND = "df -k / | awk 'END {print $2}'"


def test_plan_change_grows_disk_online_and_memory_at_restart(lab):
    """INS-81, INS-82"""
    group = lab.call_admin("GET", "/cloud-service/plan-groups")[0]["id"]
    large = {"name": "Small", "plan_group_id": group, "cpu_cores": 2, "ram": 320, "storage": 2}
    plan = lab.call_admin("POST", "/instance/plans", large)["id"]
    instance = lab.create()
    lab.install(instance, ssh_keys=[lab.key_id])
    ip = lab.get_instance(instance)["primary_public_ip"]["ip"]
    run = lambda command: lab.ssh(ip, command).strip()  # noqa: E731
    boot, memory, root = lab.read_boot_id(ip), int(run(MEMORY_COMMAND)), int(run(ROOT_SIZE_COMMAND))
    answer = lab.call("POST", f"/api/instance/{instance['id']}/change-plan", {"plan_id": plan})
    lab.wait_for_task(answer["task_id"])
    assert int(run("cat /sys/block/vda/size")) * 512 == 2 * 1024**3
    assert int(run(ROOT_SIZE_COMMAND)) > root * 1.5
    assert (lab.read_boot_id(ip), run("nproc")) == (boot, "1")
    shown = lab.get_instance(instance)
    assert (shown["storage"], shown["pending_cpu_cores"], shown["pending_ram"]) == (2, 2, 320)
    lab.run_power_action(instance, "restart")
    wait_until(lambda: lab.read_boot_id(ip) != boot, "another boot")
    assert run("nproc") == "2"
    assert int(run(MEMORY_COMMAND)) > memory + 40_000
    shown = lab.get_instance(instance)
    assert (shown["state"], shown["pending_cpu_cores"], shown["pending_ram"]) == ("running", None, None)
    lab.destroy(instance)
