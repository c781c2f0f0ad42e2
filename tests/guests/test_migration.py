"""Migration of a real guest between two hypervisors, live and cold, and its backups before and after."""

import subprocess

import pytest

from tests.guests import lab_backups
from tests.support.installation import run_installation
from tests.support.two_hypervisors import run_hypervisors
from tests.support.waiting import wait_until

pytestmark = pytest.mark.guest

READ_ONLY_COMMAND = "echo {text} > /root/file; sync; echo u > /proc/sysrq-trigger"
"""Writes a file and makes the file systems read-only until the next boot, so that the disk stays as it is."""

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


@pytest.fixture(scope="module")
def moved_backups(two_node_lab, tmp_path_factory):
    """Backups with an image of what the disk had at that time. The destination is added for them."""
    lab_backups.add_destination(two_node_lab[0], tmp_path_factory.mktemp("backups"))
    return []


@pytest.fixture
def back_up_unchanging_disk(two_node_lab, guest, moved_backups, tmp_path_factory):
    """Return a function that backs up the guest on the hypervisor with this number, and keeps an image of its disk."""
    (lab, *_), ip = two_node_lab, guest["primary_public_ip"]["ip"]

    def request(number):
        lab.ssh(ip, READ_ONLY_COMMAND.format(text=f"host{number}"))
        image = tmp_path_factory.mktemp("images") / "disk.qcow2"
        wait_until(lambda: " ro," in lab.ssh(ip, "grep ' / ' /proc/mounts"), "the read-only file system")
        run_qemu_img("convert", "-U", "-O", "qcow2", find_disk(lab, guest, number), image)
        moved_backups.append((lab_backups.back_up(lab, guest), image))
        return moved_backups[-1][0]

    return request


def find_disk(lab, guest, number):
    """Return the file of the guest's disk on the hypervisor with this number."""
    folder = lab.installation.data_dir.parent / f"host{number}" / "disks"
    [path] = folder.glob(f"{guest['name']}-*.qcow2")
    return path


def run_qemu_img(*arguments):
    subprocess.run(["qemu-img", *map(str, arguments)], check=True, capture_output=True)


def migrate_instance(lab, guest, target):
    answer = lab.call_admin("POST", "/migrations", {"instance_id": guest["id"], "hypervisor_id": target})
    path = f"/migration/{answer['migration_id']}"
    return wait_until(lambda: (row := lab.call_admin("GET", path))["status"] != "active" and row, "the migration")


def test_live_migration_keeps_memory(two_node_lab, guest, moved_backups):
    """INS-11"""
    (lab, second, _), ip = two_node_lab, guest["primary_public_ip"]["ip"]
    assert lab_backups.back_up(lab, guest)["chain_reason"] == "first_backup"
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


def test_moved_guest_is_backed_up_from_its_new_hypervisor(back_up_unchanging_disk):
    backup = back_up_unchanging_disk(2)
    assert (backup["backup_type"], backup["chain_reason"]) == ("full", "no_checkpoint")
    assert backup["statistics"]["chunks_shared"] > backup["statistics"]["chunks_stored"]


def test_stopped_instance_migrates_and_starts(two_node_lab, guest):
    (lab, *_), ip = two_node_lab, guest["primary_public_ip"]["ip"]
    lab.ssh(ip, "sync")
    lab.run_power_action(guest, "shutdown")
    row = migrate_instance(lab, guest, lab.node)
    assert (row["status"], row["kind"], row["error"]) == ("completed", "cold", None)
    assert lab.get_instance(guest)["state"] == "stopped"
    lab.run_power_action(guest, "start")
    assert lab.ssh(ip, "cat /root/kept").strip() == "kept"


def test_backups_of_moved_guest_are_restored_byte_for_byte(two_node_lab, guest, moved_backups, back_up_unchanging_disk):
    """One was made after a move, the other after the return to the hypervisor of the first backup."""
    lab, *_ = two_node_lab
    assert back_up_unchanging_disk(1)["chain_reason"] == "no_checkpoint"
    lab.run_power_action(guest, "poweroff")
    assert len(moved_backups) == 2
    for row, image in moved_backups:
        lab_backups.restore(lab, guest, row)
        run_qemu_img("compare", find_disk(lab, guest, 1), image)
