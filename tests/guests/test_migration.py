"""Migration of a real guest between two hypervisors, live and cold."""

import pytest

from tests.support.installation import run_installation
from tests.support.two_hypervisors import run_hypervisors
from tests.support.waiting import wait_until

pytestmark = pytest.mark.guest

COUNTER_COMMAND = "(n=0; while true; do n=$((n+1)); echo $n > /run/count; sleep 0.1; done) >/dev/null 2>&1 &"


@pytest.fixture(scope="module")
def two_node_lab(tmp_path_factory, installation_template):
    """An installation with two hypervisors, the second's id, and an instance that was placed on the first."""
    directory = tmp_path_factory.mktemp("hosts")
    with (
        run_hypervisors(directory) as (first, second),
        run_installation(directory / "lab", first, installation_template) as lab,
    ):
        instance = lab.create()
        second_id = lab.add_hypervisor("node-2", second)
        lab.wait_for_hypervisor(second_id)
        yield lab, second_id, instance


@pytest.fixture(scope="module")
def guest(two_node_lab):
    lab, _, instance = two_node_lab
    lab.install(instance, ssh_keys=[lab.key_id])
    return lab.get_instance(instance)


def migrate_instance(lab, guest, target):
    answer = lab.call_admin("POST", "/migrations", {"instance_id": guest["id"], "hypervisor_id": target})
    path = f"/migration/{answer['migration_id']}"
    return wait_until(lambda: (row := lab.call_admin("GET", path))["status"] != "active" and row, "the migration")


def test_live_migration_keeps_memory(two_node_lab, guest):
    """INS-11"""
    (lab, second, _), ip = two_node_lab, guest["primary_public_ip"]["ip"]
    lab.ssh(ip, f"echo kept > /root/kept; {COUNTER_COMMAND}")
    boot = lab.read_boot_id(ip)
    before = int(lab.ssh(ip, "cat /run/count"))
    row = migrate_instance(lab, guest, second)
    assert (row["status"], row["kind"], row["error"]) == ("completed", "live", None)
    assert lab.get_instance(guest)["state"] == "running"
    assert lab.call_admin("GET", f"/instance/{guest['id']}")["hypervisor_name"] == "node-2"
    assert lab.read_boot_id(ip) == boot
    assert int(lab.ssh(ip, "cat /run/count")) > before
    assert lab.ssh(ip, "cat /root/kept").strip() == "kept"


def test_stopped_instance_migrates_and_starts(two_node_lab, guest):
    (lab, *_), ip = two_node_lab, guest["primary_public_ip"]["ip"]
    lab.ssh(ip, "sync")
    lab.run_power_action(guest, "shutdown")
    row = migrate_instance(lab, guest, lab.node)
    assert (row["status"], row["kind"], row["error"]) == ("completed", "cold", None)
    assert lab.get_instance(guest)["state"] == "stopped"
    lab.run_power_action(guest, "start")
    assert lab.ssh(ip, "cat /root/kept").strip() == "kept"
