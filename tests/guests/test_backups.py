"""Backups of a real guest: full and incremental while it runs, restored in place, single files of
one, and a restore test."""

import io
import tarfile
import urllib.error
import urllib.request
from functools import partial
from urllib.parse import quote

import pytest

from tests.guests import lab_backups
from tests.support.waiting import wait_until

pytestmark = pytest.mark.guest

MEBIBYTE = 1024**2


@pytest.fixture(scope="module")
def guest(lab):
    """An instance of its own: a restore gives it other disks than those that the saved one is restored with."""
    instance = lab.create(display_name="Backups", hostname="backups")
    lab.install(instance, ssh_keys=[lab.key_id])
    lab.wait_until_booted(instance)
    yield lab.get_instance(instance)
    lab.destroy(instance)


@pytest.fixture(scope="module")
def back_up(lab, guest, tmp_path_factory):
    """Return a function that backs up the guest and returns the row of the backup."""
    lab_backups.add_destination(lab, tmp_path_factory.mktemp("backups"))
    return partial(lab_backups.back_up, lab, guest)


@pytest.mark.slow_proof("backups")
def test_running_guest_is_restored_from_full_and_incremental_backup(lab, guest, back_up):
    ip, path = guest["primary_public_ip"]["ip"], f"/api/instance/{guest['id']}"
    run = lambda command: lab.ssh(ip, command).strip()  # noqa: E731
    restore = partial(lab_backups.restore, lab, guest)
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


def test_files_of_backup_are_read_in_a_machine_of_their_own(lab, guest, back_up, hypervisor):
    """A file that the guest deletes after the backup is read from it, byte for byte. Nothing is left on the node."""
    lab.installation.run_panel("image", "build", "backup-files")
    ip = guest["primary_public_ip"]["ip"]
    name = "odd 100% name"
    lab.ssh(ip, f"mkdir /root/files; cd /root/files; echo text > '{name}'; ln -s /etc link; seq 99999 > large; sync")
    backup = back_up()
    lab.ssh(ip, "rm -r /root/files; sync")
    disks = hypervisor.directory / "disks"
    before = sorted(path.name for path in disks.iterdir() if not path.name.startswith("files-"))
    path = f"/api/instance/{guest['id']}/backup/{backup['id']}/files"
    lab.call("POST", f"{path}/session")
    show = lambda: lab.call("GET", f"{path}/session")["session"]  # noqa: E731
    wait_until(lambda: show()["state"] != "preparing", "the files")
    session = show()
    assert session["state"] == "ready", session["error"]
    [volume] = [row["name"] for row in session["volumes"] if row["kind"] == "ext4"]
    folder = f"/{volume}/root/files"
    rows = {row["filepath"]: row for row in lab.call("GET", f"{path}?filepath={folder}")["files"]}
    assert {place.removeprefix(f"{folder}/"): row["kind"] for place, row in rows.items()} == {
        "large": "file",
        "link": "link",
        "odd 100%25 name": "file",
    }
    content = "".join(f"{number}\n" for number in range(1, 100_000)).encode()
    assert rows[f"{folder}/large"]["size"] == len(content)
    assert download(lab, path, f"{folder}/large") == content
    assert download(lab, path, f"{folder}/odd 100%25 name") == b"text\n"
    with tarfile.open(fileobj=io.BytesIO(download(lab, path, folder))) as archive:
        assert archive.extractfile("files/large").read() == content
        assert archive.getmember("files/link").linkname == "/etc"
    assert lab.read_boot_id(ip), "the guest continues"
    lab.call("DELETE", f"{path}/session")
    wait_until(lambda: lab.installation.call("GET", f"{path}/session", None, lab.token)[0] == 409, "the end")
    after = sorted(path.name for path in disks.iterdir())
    assert [name for name in after if name.startswith("files-")] == []
    assert set(before) <= set(after)


def test_restored_guest_answers_in_a_restore_test(lab, guest, back_up, hypervisor):
    backup = back_up()
    path = f"/instance/{guest['id']}/backup/{backup['id']}/restore-test"
    lab.call_admin("POST", path)
    wait_until(lambda: lab.call_admin("GET", path)["status"] != "running", "the restore test")
    result = lab.call_admin("GET", path)
    assert (result["status"], result["evidence"], result["has_screenshot"]) == ("passed", "agent", True), result
    assert [path.name for path in (hypervisor.directory / "disks").glob("test-*")] == []
    assert lab.get_instance(guest)["state"] == "running"


def download(lab, path, place):
    """Return the content, as soon as it is prepared."""
    address = f"{lab.installation.url}{path}/download?filepath={quote(place)}"
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {lab.token}"})

    def read():
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise
            return None

    return wait_until(read, "the download")
