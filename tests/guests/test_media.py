"""ISOs, rescue and captured images, seen from inside real guests."""

import io
import subprocess
import uuid

import pycdlib
import pytest

from tests.processes.conftest import wait_until

pytestmark = pytest.mark.guest


@pytest.fixture(scope="module")
def guest(lab):
    instance = lab.create(hostname="media.example.com")
    lab.install(instance, ssh_keys=[lab.key_id])
    yield lab.show(instance)
    lab.destroy(instance)


def build_iso(label, words="", boot=None):
    """An ISO 9660 medium with one file, that may be booted from."""
    made, out = pycdlib.PyCdlib(), io.BytesIO()
    made.new(vol_ident=label, rock_ridge="1.09")
    made.add_fp(io.BytesIO(words.encode()), len(words), "/WORDS.;1", rr_name="words")
    if boot:
        made.add_fp(io.BytesIO(boot), len(boot), "/BOOT.;1", rr_name="boot")
        made.add_eltorito("/BOOT.;1", boot_load_size=4)
    made.write_fp(out)
    made.close()
    return out.getvalue()


TURNS_ITSELF_OFF = bytes.fromhex(
    "b8 01 53 31 db cd 15"  # ask the BIOS for its power management,
    "b8 0e 53 31 db b9 02 01 cd 15"  # in version 1.2,
    "b8 07 53 bb 01 00 b9 03 00 cd 15"  # and to turn all devices off
    "f4 eb fd"
).ljust(2048, b"\0")
"""A boot loader that does nothing else."""


def add_iso(lab, shelf, content, name):
    url = shelf.put(f"/{name}-{uuid.uuid4().hex}.iso", content)
    return lab.call("POST", "/api/isos", {"url": url, "name": name})["iso"]["id"]


def drive(lab, guest, slot, verb, **body):
    answer = lab.call("POST", f"/api/instance/{guest['id']}/iso/{slot}/{verb}", body)
    lab.finished(answer["task_id"])


def read_device(lab, guest, device):
    ip = guest["primary_public_ip"]["ip"]
    return lab.ssh(ip, f"mount -r -t iso9660 /dev/{device} /mnt 2>/dev/null && cat /mnt/words; umount /mnt 2>/dev/null")


def test_a_guest_sees_isos_come_change_and_go(lab, guest, standalone_file_server):
    """ISO-09, ISO-10, ISO-11, ISO-13: the guest's drives are sr0 (its seed), sr1 and sr2."""
    first, second = (
        add_iso(lab, standalone_file_server, build_iso("FIRST", "first"), "first"),
        add_iso(lab, standalone_file_server, build_iso("SECOND", "second"), "second"),
    )
    drive(lab, guest, "primary", "mount", iso_id=first)
    drive(lab, guest, "secondary", "insert", iso_id=second)
    wait_until(lambda: read_device(lab, guest, "sr1") == "first", "the first medium")
    wait_until(lambda: read_device(lab, guest, "sr2") == "second", "the second medium")
    shown = lab.show(guest)
    assert (shown["iso_id"], shown["secondary_iso_id"]) == (first, second)
    drive(lab, guest, "primary", "mount", iso_id=second)
    wait_until(lambda: read_device(lab, guest, "sr1") == "second", "the swap")
    ip = guest["primary_public_ip"]["ip"]
    lab.ssh(ip, "mount -r -t iso9660 /dev/sr1 /mnt")
    drive(lab, guest, "primary", "unmount")
    assert lab.show(guest)["iso_id"] is None
    lab.ssh(ip, "umount /mnt")
    wait_until(lambda: read_device(lab, guest, "sr1") == "", "the empty drive")
    lab.power(guest, "restart")
    wait_until(lambda: read_device(lab, guest, "sr2") == "second", "the second medium after a restart")
    drive(lab, guest, "secondary", "eject")


def test_a_self_deploy_boots_the_iso(lab, standalone_file_server):
    """The loader on the medium turns the machine off; a blank disk would not."""
    iso = add_iso(lab, standalone_file_server, build_iso("BOOT", boot=TURNS_ITSELF_OFF), "boot")
    instance = lab.create()
    answer = lab.call("POST", f"/api/instance/{instance['id']}/self-deploy", {"iso_id": iso, "hostname": "mine"})
    lab.finished(answer["task_id"])
    lab.wait_for_state(instance, "stopped")
    drive(lab, instance, "primary", "unmount")
    lab.power(instance, "start")
    assert lab.show(instance)["state"] == "running", "nothing on the disk turns it off"
    lab.destroy(instance)


def rescue(lab, guest, enable):
    answer = lab.call("POST", f"/api/instance/{guest['id']}/rescue", {"enable": enable})
    lab.finished(answer["task_id"])
    return lab.call("GET", f"/api/instance/{guest['id']}/rescue")


def ssh_by_password(ip, password, command, environment_file):
    """What a command says, signed in with a password."""
    environment_file.write_text(f"#!/bin/sh\necho '{password}'\n")
    environment_file.chmod(0o700)
    options = "StrictHostKeyChecking=no UserKnownHostsFile=/dev/null ConnectTimeout=5 LogLevel=ERROR"
    words = [
        f"-o{option}" for option in [*options.split(), "PreferredAuthentications=password", "NumberOfPasswordPrompts=1"]
    ]
    environment = {"SSH_ASKPASS": str(environment_file), "SSH_ASKPASS_REQUIRE": "force", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["ssh", *words, f"root@{ip}", command], capture_output=True, text=True, timeout=60, env=environment
    )
    return done.stdout if done.returncode == 0 else None


def test_rescue_signs_in_and_repairs_the_disk(lab, guest, tmp_path):
    """RSC-01, RSC-02, RSC-06, RSC-07: both file systems carry the same label."""
    ip = guest["primary_public_ip"]["ip"]
    lab.ssh(ip, "echo broken > /root/state; sync")
    lab.power(guest, "stop")
    session = rescue(lab, guest, True)
    assert lab.show(guest)["state"] == "running"
    ask = tmp_path / "ask"
    inside = lambda command: ssh_by_password(ip, session["password"], command, ask)  # noqa: E731
    assert wait_until(lambda: inside("hostname"), "the rescue system").strip() == "rescue"
    assert inside("ls /root/state 2>/dev/null || echo another system").strip() == "another system"
    assert inside("mount /dev/vdb1 /mnt && cat /mnt/root/state").strip() == "broken"
    inside("echo mended > /mnt/root/state; umount /mnt; sync")
    assert ssh_by_password(ip, "wrong", "true", ask) is None
    ended = rescue(lab, guest, False)
    assert (ended["active"], "password" in ended) == (False, False)
    assert lab.ssh(ip, "cat /root/state").strip() == "mended"
    assert lab.ssh(ip, "hostname").strip() == "media.example.com"
    assert ssh_by_password(ip, session["password"], "true", ask) is None


def test_a_captured_image_makes_another_machine(lab, guest):
    """What the first one's disk held is there; who it was is not."""
    ip = guest["primary_public_ip"]["ip"]
    lab.ssh(ip, "echo golden > /etc/golden; sync")
    lab.power(guest, "stop")
    wanted = {"instance_id": guest["id"], "name": "golden", "cloudinit": "true"}
    image = lab.call("POST", "/api/images", wanted)["image"]["id"]

    def made():
        [found] = [each for each in lab.call("GET", "/api/images")["data"] if each["id"] == image]
        assert found["status"] != "error", lab.call("GET", "/api/tasks")["data"][0]
        return found["status"] == "available" and found

    assert wait_until(made, "the image")["size"] > 10_000_000
    other = lab.create(hostname="other.example.com")
    lab.install(other, image_id=image, ssh_keys=[lab.key_id])
    ip = lab.show(other)["primary_public_ip"]["ip"]
    assert lab.ssh(ip, "cat /etc/golden; hostname").split() == ["golden", "other.example.com"]
    lab.power(guest, "start")
    lab.destroy(other)
    lab.call("DELETE", f"/api/image/{image}")


def test_an_image_of_a_guest_that_runs(lab, guest, hypervisor):
    """Acceptance C4: the source goes on, with what it writes later; the image has what was synced before."""
    import libvirt

    ip = guest["primary_public_ip"]["ip"]
    boot = lab.ssh(ip, "echo synced > /etc/running; sync; cat /proc/sys/kernel/random/boot_id")
    image = lab.call("POST", "/api/images", {"instance_id": guest["id"], "name": "live", "cloudinit": "true"})["image"]
    lab.ssh(ip, "echo later > /etc/later; sync")

    def made():
        [found] = [each for each in lab.call("GET", "/api/images")["data"] if each["id"] == image["id"]]
        assert found["status"] != "error", lab.call("GET", "/api/tasks")["data"][0]
        return found["status"] == "available"

    wait_until(made, "the image")
    assert lab.ssh(ip, "echo thawed > /etc/thawed; sync; cat /proc/sys/kernel/random/boot_id") == boot
    pool = libvirt.open(hypervisor.uri).storagePoolLookupByName("default")
    pool.refresh()
    assert [name for name in pool.listVolumes() if name.startswith("capture-") or name.endswith(".forge")] == []
    other = lab.create(hostname="copy.example.com")
    lab.install(other, image_id=image["id"], ssh_keys=[lab.key_id])
    copy = lab.show(other)["primary_public_ip"]["ip"]
    assert lab.ssh(copy, "cat /etc/running; hostname").split() == ["synced", "copy.example.com"]
    lab.destroy(other)
    lab.power(guest, "stop")
    lab.power(guest, "start")
    assert lab.ssh(ip, "cat /etc/later /etc/thawed").split() == ["later", "thawed"]
    lab.call("DELETE", f"/api/image/{image['id']}")
