"""Guests of a simulated node, and what happens to them without the panel."""

from datetime import timedelta

import pytest

from panel.core import clock
from tests.nodes.simulated.machine_status import get_status
from worker.nodes.base import AgentUnavailable, Nic, Power, Seed


@pytest.fixture
def advance_time(monkeypatch):
    """Return a function that advances the clock."""
    passed = [clock.now()]
    monkeypatch.setattr(clock, "now", lambda: passed[-1])

    def later(seconds):
        passed.append(passed[-1] + timedelta(seconds=seconds))

    return later


def test_guest_answers_after_boot(open_node, define_machine, advance_time):
    node, machine = open_node("boot_seconds=10"), define_machine()
    node.start(machine.id)
    advance_time(9)
    with pytest.raises(AgentUnavailable):
        node.agent_ping(machine.id)
    node.shutdown(machine.id)
    assert get_status(node, machine).power == Power.on
    node.suspend(machine.id)
    advance_time(60)
    node.resume(machine.id)
    with pytest.raises(AgentUnavailable):
        node.agent_ping(machine.id)
    advance_time(1)
    node.agent_ping(machine.id)
    node.guest_restarts(machine.id)
    with pytest.raises(AgentUnavailable):
        node.agent_ping(machine.id)
    advance_time(10)
    node.shutdown(machine.id)
    assert get_status(node, machine).power == Power.off


def test_blank_disk_has_no_guest(node, define_machine):
    machine = define_machine()
    node.create_disk(machine.disks[0])
    node.start(machine.id)
    with pytest.raises(AgentUnavailable):
        node.agent_ping(machine.id)
    node.shutdown(machine.id)
    assert get_status(node, machine).power == Power.on


def test_guest_can_ignore_requests(node, define_machine):
    machine = define_machine()
    node.start(machine.id)
    node.set_guest(machine.id, heeds_shutdown=False, agent=False)
    node.shutdown(machine.id)
    assert get_status(node, machine).power == Power.on
    with pytest.raises(AgentUnavailable):
        node.agent_ping(machine.id)
    node.set_guest(machine.id)
    node.agent_ping(machine.id)
    node.shutdown(machine.id)
    assert get_status(node, machine).power == Power.off


def test_external_actions_change_node(node, define_machine):
    machine = define_machine()
    node.external_start(machine.id)
    assert get_status(node, machine).power == Power.on
    node.guest_powers_off(machine.id)
    assert get_status(node, machine).power == Power.off
    node.start(machine.id)
    node.node_restarts()
    assert get_status(node, machine).power == Power.off
    node.start(machine.id)
    node.external_delete(machine.id)
    assert node.machines() == []
    assert machine.disks[0] in node.disks("pool")


def test_seed_can_be_read_back(node, define_machine):
    seed = Seed('{"instance-id": "ü"}', '#cloud-config\n{"users": []}', '{"version": 2}')
    machine = define_machine(media={"seed": node.create_seed("pool", "seed", seed)})
    assert node.seed_of(machine.id) == seed
    assert node.seed_of(define_machine("another").id) is None


def test_counters_grow_while_machine_is_on(node, define_machine, advance_time):
    machine, busy = define_machine(), []
    node.start(machine.id)
    for _ in range(3):
        advance_time(60)
        busy.append(get_status(node, machine))
    assert busy[0].cpu_seconds < busy[1].cpu_seconds < busy[2].cpu_seconds
    mac = machine.nics[0].mac
    assert busy[0].received[mac] < busy[1].received[mac]
    assert busy[0].sent[mac] < busy[1].sent[mac]
    node.suspend(machine.id)
    before = get_status(node, machine)
    advance_time(60)
    assert get_status(node, machine) == before
    assert before.cpu_seconds == busy[2].cpu_seconds
    node.power_off(machine.id)
    node.start(machine.id)
    assert get_status(node, machine).cpu_seconds == 0


def test_nic_keeps_its_speed_limit(node, define_machine, advance_time):
    nic = Nic("52:54:00:00:00:01", "default", inbound_mbps=1, outbound_mbps=2)
    machine = define_machine(nics=(nic,))
    node.start(machine.id)
    before = get_status(node, machine)
    for _ in range(20):
        advance_time(30)
        now = get_status(node, machine)
        assert 0 < now.received[nic.mac] - before.received[nic.mac] <= 30 * 125_000
        assert 0 < now.sent[nic.mac] - before.sent[nic.mac] <= 30 * 250_000
        before = now


def test_guest_agent_reports_nic_addresses(node, define_machine):
    machine = define_machine()
    node.start(machine.id)
    assert node.agent_addresses(machine.id) == {machine.nics[0].mac: ["10.0.0.2", "fd00::2"]}
