"""Secure boot, seen from inside real guests."""

import os
import select
import time
from contextlib import closing

import pytest
from lxml import etree

from tests.guests.domains import find_domain
from tests.support.waiting import WAIT_TIMEOUT_SECONDS

pytestmark = [pytest.mark.guest, pytest.mark.slow_proof("secure-boot")]

SECURE_BOOT_COMMAND = (
    "dmesg | grep -i -e 'secure boot enabled' -e 'locked down'; lsmod | wc -l; ls -d /sys/firmware/efi"
)


class SerialConsole:
    """What a running machine writes to its serial port from now on."""

    def __init__(self, hypervisor, machine_id):
        source = etree.fromstring(find_domain(hypervisor, machine_id).XMLDesc()).find("devices/serial/source")
        self.port, self.output = os.open(source.get("path"), os.O_RDONLY | os.O_NOCTTY), ""

    def wait_for(self, text):
        limit = time.monotonic() + WAIT_TIMEOUT_SECONDS
        while text not in self.output:
            ready, _, _ = select.select([self.port], [], [], limit - time.monotonic())
            assert ready, f"no {text!r} in {self.output[-2000:]!r}"
            self.output += os.read(self.port, 4096).decode(errors="replace")

    def close(self):
        os.close(self.port)


def has_secure_boot(lab, ip):
    """Return whether the guest's kernel reports secure boot."""
    output = lab.ssh(ip, SECURE_BOOT_COMMAND)
    return all(
        text in output for text in ("Secure boot enabled", "locked down from EFI Secure Boot", "/sys/firmware/efi")
    )


def test_secure_boot_starts_signed_and_refuses_unsigned_code(lab, hypervisor):
    """INS-88: the panel's own image starts with secure boot, and so does an image captured of it, which starts by BIOS
    as well. A module without Debian's signature is refused, and so is a kernel with one changed byte."""
    tiny = lab.call_admin("GET", f"/instance/plan/{lab.plan}")
    plan_fields = {key: tiny[key] for key in ("plan_group_id", "cpu_cores", "storage")}
    plan = lab.call_admin("POST", "/instance/plans", {**plan_fields, "name": "UEFI", "ram": 384})["id"]
    first = lab.create(plan_id=plan)
    lab.switch_option(first, "secure-boot", "enable")
    lab.install(first, ssh_keys=[lab.key_id])
    ip = lab.get_instance(first)["primary_public_ip"]["ip"]
    assert has_secure_boot(lab, ip)
    unsigned = "umount /lib/modules; insmod $(find /lib/modules/ -name 'dummy.ko') 2>&1; echo kept >/root/kept; sync"
    assert "can't insert" in lab.ssh(ip, unsigned)
    lab.run_power_action(first, "poweroff")
    image = lab.capture_image(first, "secured")
    lab.destroy(first)

    other = lab.create(plan_id=plan)
    lab.install(other, image_id=image, ssh_keys=[lab.key_id])
    ip = lab.get_instance(other)["primary_public_ip"]["ip"]
    assert lab.ssh(ip, "cat /root/kept; ls -d /sys/firmware/efi") == "kept\n"
    lab.run_power_action(other, "poweroff")
    lab.switch_option(other, "secure-boot", "enable")
    lab.run_power_action(other, "start")
    assert has_secure_boot(lab, ip)
    assert lab.ssh(ip, "cat /root/kept").strip() == "kept"

    lab.ssh(ip, "printf x | dd of=/boot/vmlinuz bs=1 seek=5000000 conv=notrunc; sync")
    with closing(SerialConsole(hypervisor, other["id"])) as console:
        lab.run_power_action(other, "restart")
        console.wait_for("bad shim signature")
    lab.destroy(other)
    lab.call_admin("DELETE", f"/instance/plan/{plan}")
