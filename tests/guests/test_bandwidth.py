"""Bandwidth limits, measured between a guest and its node in both directions. Rates are compared with the limit and
with each other, never with what a machine can do."""

import socket
import time

import pytest

from tests.support.waiting import WAIT_TIMEOUT_SECONDS, wait_until

pytestmark = pytest.mark.guest

RECEIVE_PORT, SEND_PORT = 7001, 7002
"""Ports of the guest: one reads whatever arrives, the other sends zeros until the connection ends."""

SLOW_MBPS, MODERATE_MBPS, FAST_MBPS = 2, 4, 12
MBIT_BYTES = 125_000
UNLIMITED_TRANSFER_BYTES = 4 * FAST_MBPS * MBIT_BYTES


class Guest:
    def __init__(self, lab, instance):
        self.lab, self.id = lab, instance["id"]
        self.ip = lab.get_instance(instance)["primary_public_ip"]["ip"]
        self.start_servers()

    def start_servers(self):
        """Start both servers, once after each boot."""
        servers = f"nc -ll -p {RECEIVE_PORT} -e sh -c 'cat >/dev/null'", f"nc -ll -p {SEND_PORT} -e cat /dev/zero"
        self.lab.ssh(self.ip, "; ".join(f"({server} </dev/null >/dev/null 2>&1 &)" for server in servers) + "; true")

    def connect(self, port):
        until = time.monotonic() + WAIT_TIMEOUT_SECONDS
        while True:
            try:
                return socket.create_connection((self.ip, port), timeout=WAIT_TIMEOUT_SECONDS)
            except ConnectionRefusedError:
                assert time.monotonic() < until, f"nothing listens at {port}"
                time.sleep(0.1)

    def is_answering(self):
        try:
            socket.create_connection((self.ip, RECEIVE_PORT), timeout=3).close()
        except OSError:
            return False
        return True

    def measure_receive_rate(self, count):
        """Return the bytes a second to the guest, until it has read the last one."""
        with self.connect(RECEIVE_PORT) as line:
            start = time.monotonic()
            line.sendall(bytes(count))
            line.shutdown(socket.SHUT_WR)
            assert line.recv(1) == b"", "it sends nothing, and disconnects when it has read everything"
            return count / (time.monotonic() - start)

    def measure_send_rate(self, count):
        """Return the bytes a second from the guest."""
        with self.connect(SEND_PORT) as connection:
            start, remaining_bytes = time.monotonic(), count
            while remaining_bytes > 0:
                chunk = connection.recv(65_536)
                assert chunk, "the guest disconnected"
                remaining_bytes -= len(chunk)
            return count / (time.monotonic() - start)

    def assert_speed(self, mbps):
        """Assert the speed in both directions, with enough bytes for the limit to show: of what the guest sends libvirt
        lets a second's worth pass at once. Return the bytes received and sent."""
        received, sent = 2 * mbps * MBIT_BYTES, 4 * mbps * MBIT_BYTES
        rates = self.measure_receive_rate(received) / MBIT_BYTES, self.measure_send_rate(sent) / MBIT_BYTES
        assert all(0.3 * mbps <= rate <= 1.5 * mbps for rate in rates), (rates, mbps)
        return received, sent

    def get_counters(self):
        """Return the bytes received and sent this month."""
        bandwidth = self.lab.call("GET", f"/api/instance/{self.id}/bandwidth")["bandwidth"]
        return bandwidth["received"], bandwidth["sent"]

    def set_speed(self, mbps):
        self.lab.call_admin("PUT", f"/instance/{self.id}/modify/bandwidth", {"port_speed": mbps})
        self.wait_until_applied()

    def wait_until_applied(self):
        def are_tasks_completed():
            tasks = self.lab.call("GET", f"/api/instance/{self.id}/tasks")["data"]
            assert not [task for task in tasks if task["status"] == "failed"], tasks
            return all(task["status"] == "completed" for task in tasks)

        wait_until(are_tasks_completed, "the speed to be applied")


@pytest.fixture(scope="module")
def plans(lab):
    """Plans of the tiny plan's size, by their speed."""
    tiny = lab.call_admin("GET", f"/instance/plan/{lab.plan}")
    size = {name: tiny[name] for name in ("plan_group_id", "cpu_cores", "ram", "storage")}
    created = {
        mbps: lab.call_admin("POST", "/instance/plans", {**size, "name": f"{mbps} Mbit/s", "port_speed": mbps})["id"]
        for mbps in (SLOW_MBPS, MODERATE_MBPS)
    }
    yield created
    for plan_id in created.values():
        lab.call_admin("DELETE", f"/instance/plan/{plan_id}")


@pytest.fixture(scope="module")
def guest(lab, plans):
    instance = lab.create(plan_id=plans[SLOW_MBPS])
    lab.install(instance, ssh_keys=[lab.key_id])
    yield Guest(lab, instance)
    lab.destroy(instance)


def test_node_supports_bandwidth_limits(lab):
    assert lab.call_admin("GET", f"/hypervisor/{lab.node}")["bandwidth_limits"] is True


def test_plan_speed_applies_from_first_start_and_traffic_is_counted(guest):
    """INS-25: bytes that pass are counted. The limit drops some of what the guest sends, which it sends again."""
    received, sent = guest.get_counters()
    put, taken = guest.assert_speed(SLOW_MBPS)

    def is_counted():
        now = guest.get_counters()
        return now[0] >= received + put and now[1] >= sent + taken and now

    now = wait_until(is_counted, "the counters")
    assert now[0] - received < 1.5 * put
    assert now[1] - sent < 4 * taken


def test_speed_changes_online_and_survives_restart(guest, lab, plans):
    """By an operator, and by a change of plan; faster, without a limit, and slower again."""
    boot = lab.read_boot_id(guest.ip)
    guest.set_speed(FAST_MBPS)
    guest.assert_speed(FAST_MBPS)
    guest.set_speed(0)
    rates = (
        guest.measure_receive_rate(UNLIMITED_TRANSFER_BYTES),
        guest.measure_send_rate(UNLIMITED_TRANSFER_BYTES),
    )
    assert min(rates) / MBIT_BYTES > 3 * FAST_MBPS
    answer = lab.call("POST", f"/api/instance/{guest.id}/change-plan", {"plan_id": plans[MODERATE_MBPS]})
    lab.wait_for_task(answer["task_id"])
    guest.wait_until_applied()
    guest.assert_speed(MODERATE_MBPS)
    assert lab.read_boot_id(guest.ip) == boot
    lab.run_power_action({"id": guest.id}, "poweroff")
    lab.run_power_action({"id": guest.id}, "start")
    guest.start_servers()
    assert lab.read_boot_id(guest.ip) != boot
    guest.assert_speed(MODERATE_MBPS)


def test_reenabled_network_keeps_speed_limit(guest, lab):
    assert guest.is_answering()
    lab.call_admin("POST", f"/instance/{guest.id}/network/public/disable")
    guest.wait_until_applied()
    assert not guest.is_answering()
    lab.call_admin("POST", f"/instance/{guest.id}/network/public/enable")
    guest.wait_until_applied()
    guest.assert_speed(MODERATE_MBPS)
