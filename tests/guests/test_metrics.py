"""Metrics of a real guest, and its switches as they reach the hypervisor."""

from contextlib import closing
from datetime import UTC, datetime

import libvirt
import pytest
from lxml import etree

from tests.support.waiting import wait_until

pytestmark = pytest.mark.guest

BURN_COMMAND = "(while :; do :; done >/dev/null 2>&1 & echo $! >/run/burner)"
"""Uses the processor until it is killed."""
READ_COMMAND = "echo 3 >/proc/sys/vm/drop_caches; dd if=/dev/vda of=/dev/null bs=1M count=16"
SEND_COMMAND = "dd if=/dev/zero bs=1M count=24"


def test_series_shows_what_guest_uses(lab, guest):
    """INS-94, INS-98, INS-100, VER-07: processor, disk and network, from the guest's point of view."""
    ip, path, since = guest["primary_public_ip"]["ip"], f"/api/instance/{guest['id']}/metrics", datetime.now(UTC)

    def get_points():
        points = lab.call("GET", f"{path}?timeRange=30m")["points"]
        return [point for point in points if datetime.fromisoformat(point["at"]) >= since]

    def get_highest(figure):
        return max((point[f"{figure}_max"] for point in get_points()), default=0)

    wait_until(get_points, "the first figures")
    # All at once: what a guest uses shows at the next sample, 15 seconds later at most.
    lab.ssh(ip, "; ".join((READ_COMMAND, BURN_COMMAND, SEND_COMMAND)))
    wait_until(lambda: get_highest("cpu_percent") > 30, "the guest's work")
    lab.ssh(ip, "kill $(cat /run/burner)")
    wait_until(lambda: get_highest("disk_read_iops") > 0, "what it read")
    wait_until(lambda: get_highest("network_transmit_mbps") > 0.5, "what it sent")
    assert get_highest("network_transmit_mbps") > 3 * get_highest("network_receive_mbps")
    lab.ssh(ip, "cat > /dev/null", stdin="x" * 16 * 2**20)
    wait_until(lambda: get_highest("network_receive_mbps") > 0.5, "what it received")
    assert 5 < get_points()[-1]["memory_used"] < 256
    now = lab.call_admin("GET", f"/instance/{guest['id']}/metrics")
    assert now["status"] == 1
    assert now["uptime"] > 10
    assert now["measured_at"]
    longer = f"/instance/{guest['id']}/metrics/series?timeRange=12h"
    wait_until(lambda: lab.call_admin("GET", longer)["points"], "the longer spans, which are computed once a minute")


def test_stopped_guest_is_not_measured(lab, guest):
    """INS-95"""
    lab.run_power_action(guest, "poweroff")
    now = lab.call_admin("GET", f"/instance/{guest['id']}/metrics")
    assert now["agent"] == {"available": False, "reason": "not_running"}
    assert now["cpu"]["percent"] is None


def test_screen_switch_changes_definition_and_machine_starts(lab, saved_instance, hypervisor):
    """Of a guest that runs, from its next start on."""
    guest = saved_instance.restore()

    def count_vnc_servers():
        with closing(libvirt.open(hypervisor.uri)) as connection:
            domain = connection.lookupByUUIDString(guest["id"])
            return len(etree.fromstring(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)).findall("devices/graphics"))

    assert count_vnc_servers() == 1
    for action, count in (("disable", 0), ("enable", 1)):
        lab.switch_option(guest, "vnc", action)
        assert count_vnc_servers() == count
    lab.run_power_action(guest, "poweroff")
    lab.run_power_action(guest, "start")
    assert lab.get_instance(guest)["state"] == "running"
