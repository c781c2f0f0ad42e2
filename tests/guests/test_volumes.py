"""Volumes of a real guest: attached and detached while it runs, with a snapshot taken in use and restored."""

import json
import subprocess

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.guest


def test_volume_snapshot_taken_in_use_is_restored(lab, guest):
    lab.call_admin("POST", "/system/settings", {"billing_enabled": True})
    group = lab.call_admin("POST", "/volume/plan-groups", {"name": "ssd"})["id"]
    plan = lambda size: lab.call_admin(  # noqa: E731
        "POST", "/volume/plans", {"name": f"{size} GB", "volume_plan_group_id": group, "size": size}
    )["id"]
    small, large = plan(1), plan(2)
    ip = guest["primary_public_ip"]["ip"]
    run = lambda command: lab.ssh(ip, command).strip()  # noqa: E731
    show = lambda: lab.call("GET", path)["volume"]  # noqa: E731
    body = {"name": "data", "volume_plan_id": small, "hypervisor_group_id": lab.location}
    path = f"/api/storage/volume/{lab.call('POST', '/api/storage/volumes', body)['volume']['id']}"
    wait_until(lambda: show()["status"] == "available", "the volume")
    attached = lab.call("POST", f"{path}/attach", {"instance_id": guest["id"]})["volume"]
    serial = attached["dev"].removeprefix("/dev/disk/by-id/virtio-")
    wait_until(lambda: run("cat /sys/block/vdb/serial 2>/dev/null; true") == serial, "the volume in the guest")
    run("mkfs.ext4 -q /dev/vdb 2>/dev/null || mke2fs -q /dev/vdb; mkdir /data; mount /dev/vdb /data")
    run("echo before > /data/file; sync")
    lab.wait_for_task(lab.call("POST", f"{path}/snapshot", {"name": "one"})["queue"]["id"])
    run("echo after > /data/file; sync")
    lab.call("PATCH", f"{path}/resize", {"volume_plan_id": large})
    wait_until(lambda: int(run("cat /sys/block/vdb/size")) * 512 == 2 * 1024**3, "the new size")
    assert run("cat /data/file") == "after"
    run("umount /data")
    lab.call("POST", f"{path}/detach")
    wait_until(lambda: run("ls /sys/block | grep -c vdb; true") == "0", "the detach in the guest")
    snapshot = show()["snapshots"][0]
    assert (snapshot["status"], snapshot["size"]) == ("available", 1024**3)
    restore_answer = lab.call("POST", f"{path}/snapshot/{snapshot['id']}/restore", {"mode": "in_place"})
    lab.wait_for_task(restore_answer["queue"]["id"])
    lab.call("POST", f"{path}/attach", {"instance_id": guest["id"]})
    wait_until(lambda: run("cat /sys/block/vdb/serial 2>/dev/null; true") == serial, "the volume in the guest")
    assert run("mount /dev/vdb /data; cat /data/file; umount /data") == "before"
    lab.call("POST", f"{path}/detach")
    wait_until(lambda: show()["instance_id"] is None, "the detached volume")
    other = lab.create()
    lab.install(other)
    lab.call("POST", f"{path}/attach", {"instance_id": other["id"]})
    wait_until(lambda: show()["pending"] is None, "the attach")
    lab.destroy(other)
    assert (show()["status"], show()["instance_id"]) == ("available", None)
    lab.call("DELETE", path)
    wait_until(lambda: lab.installation.call("GET", path, token=lab.token)[0] == 404, "the end of the volume")


def test_volume_delete_during_power_off_completes(lab, saved_instance, hypervisor):
    """The volume is gone for the customer at once, and soon from the node, whatever QEMU says."""
    import libvirt

    lab.call_admin("POST", "/system/settings", {"billing_enabled": True})
    group = lab.call_admin("POST", "/volume/plan-groups", {"name": "hdd"})["id"]
    plan = lab.call_admin("POST", "/volume/plans", {"name": "small", "volume_plan_group_id": group, "size": 1})["id"]
    pool = libvirt.open(hypervisor.uri).storagePoolLookupByName("default")

    def find_volumes_on_node():
        pool.refresh()
        return [name for name in pool.listVolumes() if name.startswith("v") and name.endswith(".qcow2")]

    guest = saved_instance.restore()
    body = {"name": "data", "volume_plan_id": plan, "hypervisor_group_id": lab.location}
    path = f"/api/storage/volume/{lab.call('POST', '/api/storage/volumes', body)['volume']['id']}"
    wait_until(lambda: lab.call("GET", path)["volume"]["status"] == "available", "the volume")
    attached = lab.call("POST", f"{path}/attach", {"instance_id": guest["id"]})["volume"]
    assert attached["pending"]["operation"] == "volume_attach"
    wait_until(lambda: lab.call("GET", path)["volume"]["pending"] is None, "the attach")
    lab.call("POST", f"{path}/detach")
    lab.call("DELETE", path)
    lab.call("POST", f"/api/instance/{guest['id']}/power/poweroff")
    assert lab.installation.call("GET", path, token=lab.token)[0] == 404
    wait_until(lambda: not find_volumes_on_node(), "the end of the disk")
    assert lab.installation.call("GET", path, token=lab.token)[0] == 404
    lab.wait_for_state(guest, "stopped")


def test_volume_in_use_is_backed_up_in_increments(lab, saved_instance, tmp_path, hypervisor):
    """Its backups and those of the guest continue from checkpoints of the same machine, also after a detach."""
    import libvirt

    lab.call_admin("POST", "/system/settings", {"billing_enabled": True})
    guest, config = saved_instance.restore(), {"path": str(tmp_path / "backups")}
    place = {"name": "of volumes", "storage_type": "local", "config": config}
    storage_id = lab.call_admin("POST", "/hypervisor/backup-storages", place)["storage_id"]
    group = lab.call_admin("POST", "/volume/plan-groups", {"name": "backed-up"})["id"]
    plan = lab.call_admin("POST", "/volume/plans", {"name": "small", "volume_plan_group_id": group, "size": 1})["id"]
    body = {"name": "data", "volume_plan_id": plan, "hypervisor_group_id": lab.location}
    path = f"/api/storage/volume/{lab.call('POST', '/api/storage/volumes', body)['volume']['id']}"
    ip, backups_path = guest["primary_public_ip"]["ip"], f"/api/instance/{guest['id']}/backups"
    run = lambda command: lab.ssh(ip, command).strip()  # noqa: E731
    show = lambda: lab.call("GET", path)["volume"]  # noqa: E731

    def back_up():
        lab.wait_for_task(lab.call("POST", f"{path}/backup", {})["queue"]["id"])
        row = show()["backups"][-1]
        assert row["status"] == "available", row["error"]
        return row

    def back_up_guest():
        lab.call("POST", backups_path, {"backup_type": "incremental"})
        wait_until(lambda: lab.call("GET", backups_path)["data"][0]["status"] != "creating", "the backup")
        row = lab.call("GET", backups_path)["data"][0]
        assert row["status"] == "complete", row["error"]
        return row["backup_type"]

    def attach():
        serial = lab.call("POST", f"{path}/attach", {"instance_id": guest["id"]})["volume"]["dev"].rpartition("-")[2]
        wait_until(lambda: run("cat /sys/block/vdb/serial 2>/dev/null; true") == serial, "the volume in the guest")

    def detach():
        lab.call("POST", f"{path}/detach")
        wait_until(lambda: show()["pending"] is None and show()["instance_id"] is None, "the detach")

    def list_bitmaps():
        pool = libvirt.open(hypervisor.uri).storagePoolLookupByName("default")
        [name] = [name for name in pool.listVolumes() if name.startswith("v") and name.endswith(".qcow2")]
        file = pool.storageVolLookupByName(name).path()
        info = json.loads(subprocess.check_output(["qemu-img", "info", "--output=json", file]))
        return info["format-specific"]["data"].get("bitmaps", [])

    wait_until(lambda: show()["status"] == "available", "the volume")
    attach()
    run("mke2fs -q /dev/vdb; mkdir -p /data; mount /dev/vdb /data; echo one > /data/file; sync")
    assert (back_up_guest(), back_up()["backup_type"]) == ("full", "full")
    run("echo two > /data/file; sync")
    assert back_up_guest() == "incremental"
    second = back_up()
    assert (second["backup_type"], second["consistency"]) == ("incremental", "filesystem")
    run("echo three > /data/file; umount /data")
    detach()
    assert list_bitmaps() == []
    assert (back_up()["backup_type"], back_up_guest()) == ("full", "incremental")
    lab.wait_for_task(lab.call("POST", f"{path}/backup/{second['id']}/restore", {"mode": "in_place"})["queue"]["id"])
    attach()
    assert run("mount /dev/vdb /data; cat /data/file") == "two"
    assert [back_up()["backup_type"], back_up_guest(), back_up()["backup_type"]] == [
        "full",
        "incremental",
        "incremental",
    ]
    run("umount /data")
    detach()
    lab.call("DELETE", path)
    lab.call_admin("PATCH", f"/hypervisor/backup-storage/{storage_id}", {"enabled": False})
