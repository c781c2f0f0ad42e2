"""What a real guest uses is what the panel shows, and its switches reach the hypervisor."""

import libvirt
import pytest
from lxml import etree

from tests.processes.conftest import wait_until

pytestmark = pytest.mark.guest


@pytest.fixture(scope="module")
def guest(lab):
    instance = lab.create()
    lab.install(instance, ssh_keys=[lab.key_id])
    yield lab.show(instance)
    lab.destroy(instance)


def series(lab, guest, span="30m"):
    return lab.call("GET", f"/api/instance/{guest['id']}/metrics?timeRange={span}")["points"]


def highest(lab, guest, figure):
    return max((point[f"{figure}_max"] for point in series(lab, guest)), default=0)


def test_the_series_shows_what_the_guest_does(lab, guest):
    """INS-94, INS-98, INS-100, VER-07: work, and what it writes, sends and receives, from the guest's point of view."""
    ip = guest["primary_public_ip"]["ip"]
    lab.ssh(ip, "true")
    wait_until(lambda: series(lab, guest), "the first figures")
    lab.ssh(ip, "(timeout 50 sh -c 'while :; do :; done' >/dev/null 2>&1 &) ; dd if=/dev/zero bs=1M count=24; sync")
    wait_until(lambda: highest(lab, guest, "cpu_percent") > 30, "the guest's work")
    wait_until(lambda: highest(lab, guest, "network_transmit_mbps") > 0.5, "what it sent")
    assert highest(lab, guest, "network_transmit_mbps") > 3 * highest(lab, guest, "network_receive_mbps")
    lab.ssh(ip, "cat > /dev/null", stdin="x" * 16 * 2**20)
    wait_until(lambda: highest(lab, guest, "network_receive_mbps") > 0.5, "what it received")
    lab.ssh(ip, "echo 3 >/proc/sys/vm/drop_caches; dd if=/dev/vda of=/dev/null bs=1M count=16")
    wait_until(lambda: highest(lab, guest, "disk_read_iops") > 0, "what it read")
    used = series(lab, guest)[-1]["memory_used"]
    assert 5 < used < 256
    now = lab.admin("GET", f"/instance/{guest['id']}/metrics")
    assert now["status"] == 1
    assert now["uptime"] > 10
    assert now["measured_at"]
    longer = f"/instance/{guest['id']}/metrics/series?timeRange=12h"
    wait_until(lambda: lab.admin("GET", longer)["points"], "the longer spans, which are worked out once a minute")


def test_a_machine_that_is_off_is_not_measured(lab, guest):
    """INS-95"""
    lab.power(guest, "poweroff")
    now = lab.admin("GET", f"/instance/{guest['id']}/metrics")
    assert now["agent"] == {"available": False, "reason": "not_running"}
    assert now["cpu"]["percent"] is None
    lab.power(guest, "start")


def test_a_screen_that_is_switched_off_is_gone_at_the_next_start(lab, guest, hypervisor):
    def screens():
        connection = libvirt.open(hypervisor.uri)
        try:
            domain = connection.lookupByUUIDString(guest["id"])
            return len(etree.fromstring(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)).findall("devices/graphics"))
        finally:
            connection.close()

    assert screens() == 1
    for action, count in (("disable", 0), ("enable", 1)):
        lab.finished(lab.call("POST", f"/api/instance/{guest['id']}/vnc/{action}")["task_id"])
        assert screens() == count
    lab.power(guest, "poweroff")
    lab.power(guest, "start")
    assert lab.show(guest)["state"] == "running"
