"""ISOs, rescue and captured images, seen from inside real guests."""

import io
import subprocess
import uuid
from contextlib import closing

import pycdlib
import pytest

from tests.support.installation import SAVED_HOSTNAME
from tests.support.waiting import wait_until

pytestmark = pytest.mark.guest


def build_iso(label, content="", boot=None):
    """Return an ISO 9660 medium with one file, and with a boot loader if one is given."""
    iso, out = pycdlib.PyCdlib(), io.BytesIO()
    iso.new(vol_ident=label, rock_ridge="1.09")
    iso.add_fp(io.BytesIO(content.encode()), len(content), "/WORDS.;1", rr_name="words")
    if boot:
        iso.add_fp(io.BytesIO(boot), len(boot), "/BOOT.;1", rr_name="boot")
        iso.add_eltorito("/BOOT.;1", boot_load_size=4)
    iso.write_fp(out)
    iso.close()
    return out.getvalue()


POWER_OFF_LOADER = bytes.fromhex(
    "b8 01 53 31 db cd 15"  # ask the BIOS for its power management,
    "b8 0e 53 31 db b9 02 01 cd 15"  # in version 1.2,
    "b8 07 53 bb 01 00 b9 03 00 cd 15"  # and to turn all devices off
    "f4 eb fd"
).ljust(2048, b"\0")
"""A boot loader that turns the machine off."""


def add_iso(lab, file_server, content, name):
    url = file_server.put(f"/{name}-{uuid.uuid4().hex}.iso", content)
    return lab.call("POST", "/api/isos", {"url": url, "name": name})["iso"]["id"]


def change_drive(lab, guest, slot, action, **body):
    answer = lab.call("POST", f"/api/instance/{guest['id']}/iso/{slot}/{action}", body)
    lab.wait_for_task(answer["task_id"])


def read_device(lab, guest, device):
    ip = guest["primary_public_ip"]["ip"]
    return lab.ssh(ip, f"mount -r -t iso9660 /dev/{device} /mnt 2>/dev/null && cat /mnt/words; umount /mnt 2>/dev/null")


def test_isos_are_inserted_changed_and_ejected(lab, guest, standalone_file_server):
    """ISO-09, ISO-10, ISO-11, ISO-13: the guest's drives are sr0 (its seed), sr1 and sr2."""
    first, second = (
        add_iso(lab, standalone_file_server, build_iso("FIRST", "first"), "first"),
        add_iso(lab, standalone_file_server, build_iso("SECOND", "second"), "second"),
    )
    change_drive(lab, guest, "primary", "mount", iso_id=first)
    change_drive(lab, guest, "secondary", "insert", iso_id=second)
    wait_until(lambda: read_device(lab, guest, "sr1") == "first", "the first medium")
    wait_until(lambda: read_device(lab, guest, "sr2") == "second", "the second medium")
    shown = lab.get_instance(guest)
    assert (shown["iso_id"], shown["secondary_iso_id"]) == (first, second)
    change_drive(lab, guest, "primary", "mount", iso_id=second)
    wait_until(lambda: read_device(lab, guest, "sr1") == "second", "the swap")
    ip = guest["primary_public_ip"]["ip"]
    lab.ssh(ip, "mount -r -t iso9660 /dev/sr1 /mnt")
    change_drive(lab, guest, "primary", "unmount")
    assert lab.get_instance(guest)["iso_id"] is None
    lab.ssh(ip, "umount /mnt")
    wait_until(lambda: read_device(lab, guest, "sr1") == "", "the empty drive")
    lab.run_power_action(guest, "restart")
    wait_until(lambda: read_device(lab, guest, "sr2") == "second", "the second medium after a restart")
    change_drive(lab, guest, "secondary", "eject")


def test_self_deploy_boots_iso(lab, standalone_file_server):
    """The loader on the medium turns the machine off; without it the machine keeps running."""
    iso = add_iso(lab, standalone_file_server, build_iso("BOOT", boot=POWER_OFF_LOADER), "boot")
    instance = lab.create()
    answer = lab.call("POST", f"/api/instance/{instance['id']}/self-deploy", {"iso_id": iso, "hostname": "mine"})
    lab.wait_for_task(answer["task_id"])
    lab.wait_for_state(instance, "stopped")
    change_drive(lab, instance, "primary", "unmount")
    lab.run_power_action(instance, "start")
    assert lab.get_instance(instance)["state"] == "running", "a blank disk does not turn it off"
    lab.destroy(instance)


def switch_rescue(lab, guest, enable):
    answer = lab.call("POST", f"/api/instance/{guest['id']}/rescue", {"enable": enable})
    lab.wait_for_task(answer["task_id"])
    return lab.call("GET", f"/api/instance/{guest['id']}/rescue")


def ssh_by_password(ip, password, command, askpass_file):
    """Return the output of a command, signed in with a password, or None."""
    askpass_file.write_text(f"#!/bin/sh\necho '{password}'\n")
    askpass_file.chmod(0o700)
    options = "StrictHostKeyChecking=no UserKnownHostsFile=/dev/null ConnectTimeout=5 LogLevel=ERROR"
    ssh_options = [
        f"-o{option}" for option in [*options.split(), "PreferredAuthentications=password", "NumberOfPasswordPrompts=1"]
    ]
    environment = {"SSH_ASKPASS": str(askpass_file), "SSH_ASKPASS_REQUIRE": "force", "PATH": "/usr/bin:/bin"}
    result = subprocess.run(
        ["ssh", *ssh_options, f"root@{ip}", command], capture_output=True, text=True, timeout=60, env=environment
    )
    return result.stdout if result.returncode == 0 else None


def test_rescue_accepts_password_and_mounts_disk(lab, guest, tmp_path):
    """RSC-01, RSC-02, RSC-06, RSC-07: both file systems carry the same label."""
    ip = guest["primary_public_ip"]["ip"]
    lab.ssh(ip, "echo broken > /root/state; sync")
    lab.run_power_action(guest, "stop")
    session = switch_rescue(lab, guest, True)
    assert lab.get_instance(guest)["state"] == "running"
    ask = tmp_path / "ask"
    inside = lambda command: ssh_by_password(ip, session["password"], command, ask)  # noqa: E731
    assert wait_until(lambda: inside("hostname"), "the rescue system").strip() == "rescue"
    assert inside("ls /root/state 2>/dev/null || echo another system").strip() == "another system"
    assert inside("mount /dev/vdb1 /mnt && cat /mnt/root/state").strip() == "broken"
    inside("echo mended > /mnt/root/state; umount /mnt; sync")
    assert ssh_by_password(ip, "wrong", "true", ask) is None
    ended = switch_rescue(lab, guest, False)
    assert (ended["active"], "password" in ended) == (False, False)
    assert lab.ssh(ip, "cat /root/state").strip() == "mended"
    assert lab.ssh(ip, "hostname").strip() == SAVED_HOSTNAME
    assert ssh_by_password(ip, session["password"], "true", ask) is None


def test_image_of_running_guest_has_what_was_synced(lab, saved_instance, hypervisor):
    """The source continues, and keeps what it writes later; the image has what was synced before. An
    image of the same instance when it is off has everything."""
    import libvirt

    guest = saved_instance.restore()
    ip = guest["primary_public_ip"]["ip"]
    boot = lab.read_boot_id(ip)
    lab.ssh(ip, "echo synced > /etc/running; sync")
    body = {"instance_id": guest["id"], "name": "live", "cloudinit": "true"}
    live_image = lab.call("POST", "/api/images", body)["image"]["id"]
    lab.ssh(ip, "echo later > /etc/later; sync")
    wait_until(lambda: lab.find_image(live_image)["status"] == "available", "the image")
    lab.ssh(ip, "echo thawed > /etc/thawed; sync")
    assert lab.read_boot_id(ip) == boot
    with closing(libvirt.open(hypervisor.uri)) as connection:
        pool = connection.storagePoolLookupByName("default")
        pool.refresh()
        assert [name for name in pool.listVolumes() if name.startswith("capture-") or name.endswith(".forge")] == []
    lab.run_power_action(guest, "stop")
    image = lab.capture_image(guest, "golden", cloudinit="true")
    assert lab.find_image(image)["size"] > 10_000_000
    lab.run_power_action(guest, "start")
    assert lab.ssh(ip, "cat /etc/later /etc/thawed; hostname").split() == ["later", "thawed", SAVED_HOSTNAME]
    lab.run_power_action(guest, "poweroff")
    assert deploy_and_read(lab, live_image, "cat /etc/running") == ["synced", "copy.example.com"]
    files = "cat /etc/running /etc/later /etc/thawed"
    assert deploy_and_read(lab, image, files) == ["synced", "later", "thawed", "copy.example.com"]


def deploy_and_read(lab, image, command):
    """Return the words that the command and `hostname` print in an instance of the image, which is removed again with
    its image."""
    instance = lab.create(hostname="copy.example.com")
    lab.install(instance, image_id=image, ssh_keys=[lab.key_id])
    output = lab.ssh(lab.get_instance(instance)["primary_public_ip"]["ip"], f"{command}; hostname").split()
    lab.destroy(instance)
    lab.call("DELETE", f"/api/image/{image}")
    return output
