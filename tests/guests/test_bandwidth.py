"""Speed limits by what really passes between a guest and its node, both ways. Rates are compared with the limit and
with each other, never with what a machine can do."""

import socket
import time

import pytest

from tests.processes.conftest import WAIT_TIMEOUT_SECONDS, wait_until

pytestmark = pytest.mark.guest

RECEIVE_PORT, SEND_PORT = 7001, 7002
"""Ports of the guest: one takes whatever comes, the other gives zeros for as long as they are read."""

SLOW, MEDIUM, FAST = 2, 4, 12
"""Mbit/s."""
MBIT = 125_000
"""Bytes a second."""
TRANSFER_BYTES = 4 * FAST * MBIT
"""Bytes for a card without a limit."""


class Guest:
    def __init__(self, lab, instance):
        self.lab, self.id = lab, instance["id"]
        self.ip = lab.show(instance)["primary_public_ip"]["ip"]
        self.serve()

    def serve(self):
        """Once after each boot."""
        servers = f"nc -ll -p {RECEIVE_PORT} -e sh -c 'cat >/dev/null'", f"nc -ll -p {SEND_PORT} -e cat /dev/zero"
        self.lab.ssh(self.ip, "; ".join(f"({server} </dev/null >/dev/null 2>&1 &)" for server in servers) + "; true")

    def boot(self):
        return self.lab.ssh(self.ip, "cat /proc/sys/kernel/random/boot_id").strip()

    def connect(self, port):
        until = time.monotonic() + WAIT_TIMEOUT_SECONDS
        while True:
            try:
                return socket.create_connection((self.ip, port), timeout=WAIT_TIMEOUT_SECONDS)
            except ConnectionRefusedError:
                assert time.monotonic() < until, f"nothing listens at {port}"
                time.sleep(0.1)

    def answers(self):
        try:
            socket.create_connection((self.ip, RECEIVE_PORT), timeout=3).close()
        except OSError:
            return False
        return True

    def receives(self, count):
        """Bytes a second to the guest, until the last one is there."""
        with self.connect(RECEIVE_PORT) as line:
            began = time.monotonic()
            line.sendall(bytes(count))
            line.shutdown(socket.SHUT_WR)
            assert line.recv(1) == b"", "it says nothing, and hangs up when it has read all of it"
            return count / (time.monotonic() - began)

    def sends(self, count):
        """Bytes a second from the guest."""
        with self.connect(SEND_PORT) as line:
            began, left = time.monotonic(), count
            while left > 0:
                got = line.recv(65_536)
                assert got, "the guest hung up"
                left -= len(got)
            return count / (time.monotonic() - began)

    def has_speed(self, mbps):
        """Both ways, with enough bytes for the limit to show: of what goes out libvirt lets a second's worth pass at
        once. Returns how many."""
        received, sent = 2 * mbps * MBIT, 4 * mbps * MBIT
        rates = self.receives(received) / MBIT, self.sends(sent) / MBIT
        assert all(0.3 * mbps <= rate <= 1.5 * mbps for rate in rates), (rates, mbps)
        return received, sent

    def bandwidth(self):
        return self.lab.call("GET", f"/api/instance/{self.id}/bandwidth")["bandwidth"]

    def counted(self):
        return self.bandwidth()["received"], self.bandwidth()["sent"]

    def speed(self, mbps):
        self.lab.admin("PUT", f"/instance/{self.id}/modify/bandwidth", {"port_speed": mbps})
        self.applied()

    def applied(self):
        def done():
            tasks = self.lab.call("GET", f"/api/instance/{self.id}/tasks")["data"]
            assert not [task for task in tasks if task["status"] == "failed"], tasks
            return all(task["status"] == "completed" for task in tasks)

        wait_until(done, "the speed to be applied")


@pytest.fixture(scope="module")
def plan(lab):
    """Plans of the laboratory's size by their speed."""
    tiny = lab.admin("GET", f"/instance/plan/{lab.plan}")
    same = {name: tiny[name] for name in ("plan_group_id", "cpu_cores", "ram", "storage")}
    made = {}

    def plan(mbps):
        if mbps not in made:
            body = {**same, "name": f"{mbps} Mbit/s", "port_speed": mbps}
            made[mbps] = lab.admin("POST", "/instance/plans", body)["id"]
        return made[mbps]

    yield plan
    for each in made.values():
        lab.admin("DELETE", f"/instance/plan/{each}")


@pytest.fixture(scope="module")
def guest(lab, plan):
    instance = lab.create(plan_id=plan(SLOW))
    lab.install(instance, ssh_keys=[lab.key_id])
    yield Guest(lab, instance)
    lab.destroy(instance)


def test_the_node_says_that_it_can(lab):
    assert lab.admin("GET", f"/hypervisor/{lab.node}")["bandwidth_limits"] is True


def test_a_machine_has_the_speed_of_its_plan_from_its_first_start_and_is_metered_all_the_same(guest):
    """INS-25: what passes is counted. Of what the guest sends some is dropped for the limit, and sent once more."""
    received, sent = guest.counted()
    put, taken = guest.has_speed(SLOW)
    enough = lambda: guest.counted() >= (received + put, sent) and guest.counted()[1] >= sent + taken  # noqa: E731
    wait_until(enough, "the counters")
    more = guest.counted()
    assert more[0] - received < 1.5 * put
    assert more[1] - sent < 4 * taken


def test_the_speed_changes_while_it_runs_and_is_kept_over_a_restart(guest, plan):
    """By an operator, and by a change of plan; faster, without a limit, and slower again."""
    boot = guest.boot()
    guest.speed(FAST)
    guest.has_speed(FAST)
    guest.speed(0)
    unlimited = guest.receives(TRANSFER_BYTES) / MBIT, guest.sends(TRANSFER_BYTES) / MBIT
    assert min(unlimited) > 3 * FAST
    answer = guest.lab.call("POST", f"/api/instance/{guest.id}/change-plan", {"plan_id": plan(MEDIUM)})
    guest.lab.finished(answer["task_id"])
    guest.applied()
    guest.has_speed(MEDIUM)
    assert guest.boot() == boot
    guest.lab.power({"id": guest.id}, "poweroff")
    guest.lab.power({"id": guest.id}, "start")
    guest.serve()
    assert guest.boot() != boot
    guest.has_speed(MEDIUM)


def test_a_cable_that_was_out_comes_back_as_fast_as_before(guest, lab):
    assert guest.answers()
    lab.admin("POST", f"/instance/{guest.id}/network/public/disable")
    guest.applied()
    assert not guest.answers()
    lab.admin("POST", f"/instance/{guest.id}/network/public/enable")
    guest.applied()
    guest.has_speed(MEDIUM)
