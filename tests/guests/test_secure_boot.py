"""Secure boot, seen from inside real guests: what is signed starts, by itself and as an image; what is not does not."""

import os
import select
import time

import pytest
from lxml import etree

from tests.guests.test_firmware import domain
from tests.processes.conftest import WAIT_TIMEOUT_SECONDS, wait_until

pytestmark = pytest.mark.guest

SECURE_BOOT_COMMAND = (
    "dmesg | grep -i -e 'secure boot enabled' -e 'locked down'; lsmod | wc -l; ls -d /sys/firmware/efi"
)


class Serial:
    """What a machine that runs writes to its serial port from now on."""

    def __init__(self, hypervisor, machine_id):
        source = etree.fromstring(domain(hypervisor, machine_id).XMLDesc()).find("devices/serial/source")
        self.port, self.said = os.open(source.get("path"), os.O_RDONLY | os.O_NOCTTY), ""

    def until(self, words):
        limit = time.monotonic() + WAIT_TIMEOUT_SECONDS
        while words not in self.said:
            ready, _, _ = select.select([self.port], [], [], limit - time.monotonic())
            assert ready, f"it never said {words!r}: {self.said[-2000:]!r}"
            self.said += os.read(self.port, 4096).decode(errors="replace")

    def close(self):
        os.close(self.port)


@pytest.fixture
def serial(hypervisor):
    opened = []

    def listen(machine_id):
        opened.append(Serial(hypervisor, machine_id))
        return opened[-1]

    yield listen
    for each in opened:
        each.close()


def switch(lab, instance, action):
    answer = lab.call("POST", f"/api/instance/{instance['id']}/secure-boot/{action}")
    if answer.get("task_id"):
        lab.finished(answer["task_id"])


def is_secured(lab, ip):
    """Whether the system itself says that its machine has secure boot."""
    told = lab.ssh(ip, SECURE_BOOT_COMMAND)
    return "Secure boot enabled" in told and "locked down from EFI Secure Boot" in told and "/sys/firmware/efi" in told


def capture_image(lab, instance):
    image = lab.call("POST", "/api/images", {"instance_id": instance["id"], "name": "secured"})["image"]["id"]
    find = lambda: next(each for each in lab.call("GET", "/api/images")["data"] if each["id"] == image)  # noqa: E731
    wait_until(lambda: find()["status"] == "available", "the image")
    return image


def test_what_is_signed_starts_and_nothing_else(lab, serial):
    """INS-88: the panel's own image starts with secure boot, and so does what is captured of it, which starts by BIOS
    as well. A module that Debian did not sign is refused, and so is a kernel of which one byte was changed."""
    tiny = lab.admin("GET", f"/instance/plan/{lab.plan}")
    same = {key: tiny[key] for key in ("plan_group_id", "cpu_cores", "storage")}
    plan = lab.admin("POST", "/instance/plans", {**same, "name": "UEFI", "ram": 384})["id"]
    made = lab.create(plan_id=plan)
    switch(lab, made, "enable")
    lab.install(made, ssh_keys=[lab.key_id])
    ip = lab.show(made)["primary_public_ip"]["ip"]
    assert is_secured(lab, ip)
    unsigned = "umount /lib/modules; insmod $(find /lib/modules/ -name 'dummy.ko') 2>&1; echo kept >/root/kept; sync"
    assert "can't insert" in lab.ssh(ip, unsigned)
    lab.power(made, "poweroff")
    image = capture_image(lab, made)
    lab.destroy(made)

    other = lab.create(plan_id=plan)
    answer = lab.call("POST", f"/api/instance/{other['id']}/deploy", {"image_id": image, "ssh_keys": [lab.key_id]})
    lab.finished(answer["task_id"])
    ip = lab.show(other)["primary_public_ip"]["ip"]
    assert lab.ssh(ip, "cat /root/kept; ls -d /sys/firmware/efi") == "kept\n"
    lab.power(other, "poweroff")
    switch(lab, other, "enable")
    lab.power(other, "start")
    assert is_secured(lab, ip)
    assert lab.ssh(ip, "cat /root/kept").strip() == "kept"

    line = serial(other["id"])
    lab.ssh(ip, "printf x | dd of=/boot/vmlinuz bs=1 seek=5000000 conv=notrunc; sync")
    lab.power(other, "restart")
    line.until("bad shim signature")
    lab.destroy(other)
    lab.admin("DELETE", f"/instance/plan/{plan}")
