"""Backups of a real guest: full and incremental while it runs, restored in place."""

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.guest

MEBIBYTE = 1024**2


@pytest.fixture
def guest(lab):
    """An instance of its own: a restore gives it other disks than those that the saved one is restored with."""
    instance = lab.create(display_name="Backups", hostname="backups")
    lab.install(instance, ssh_keys=[lab.key_id])
    lab.wait_until_booted(instance)
    yield lab.get_instance(instance)
    lab.destroy(instance)


@pytest.fixture
def back_up(lab, guest, tmp_path):
    """Return a function that backs up the guest and returns the row of the backup."""
    config = {"path": str(tmp_path / "backups")}
    lab.call_admin("POST", "/hypervisor/backup-storages", {"name": "local", "storage_type": "local", "config": config})
    path = f"/api/instance/{guest['id']}/backups"

    def request(**body):
        lab.call("POST", path, {"backup_type": "incremental", **body})
        wait_until(lambda: lab.call("GET", path)["data"][0]["status"] != "creating", "the backup")
        row = lab.call("GET", path)["data"][0]
        assert row["status"] == "complete", row["error"]
        return row

    return request


def test_running_guest_is_restored_from_full_and_incremental_backup(lab, guest, back_up):
    ip, path = guest["primary_public_ip"]["ip"], f"/api/instance/{guest['id']}"
    run = lambda command: lab.ssh(ip, command).strip()  # noqa: E731
    restore = lambda backup: lab.wait_for_task(  # noqa: E731
        lab.call("POST", f"{path}/backup/{backup['id']}/restore", {})["task_id"]
    )
    run("echo one > /root/file; dd if=/dev/urandom of=/root/random bs=1M count=8 2>/dev/null; sync")
    checksum = run("sha256sum < /root/random")
    first = back_up()
    assert (first["backup_type"], first["consistency"]) == ("full", "filesystem")
    run("echo two > /root/file; sync")
    second = back_up()
    assert (second["backup_type"], second["parent_backup_id"]) == ("incremental", first["id"])
    assert second["statistics"]["bytes_read"] < 8 * MEBIBYTE < first["statistics"]["bytes_read"]
    run("echo three > /root/file; rm /root/random; sync")
    boot = lab.read_boot_id(ip)
    for backup, content in ((first, "one"), (second, "two")):
        restore(backup)
        assert lab.get_instance(guest)["state"] == "running"
        assert run("cat /root/file; sha256sum < /root/random").split("\n") == [content, checksum]
        assert boot != (boot := lab.read_boot_id(ip))
    third = back_up()
    assert (third["backup_type"], third["chain_reason"]) == ("full", "no_checkpoint")
    lab.call("DELETE", f"{path}/backup/{first['id']}")
    wait_until(lambda: len(lab.call("GET", f"{path}/backups")["data"]) == 2, "the deletion of the first backup")
    restore(second)
    assert run("cat /root/file; sha256sum < /root/random").split("\n") == ["two", checksum]
