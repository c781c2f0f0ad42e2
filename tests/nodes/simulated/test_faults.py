"""Faults injected into a simulated node."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.nodes.simulated.machine_status import get_status
from worker.nodes.base import Disk, GiB, NoCapacity, NodeSpec, NoTicket, NotOnNode, Power, Refused, Unreachable
from worker.nodes.circuit_breaker import FAILURE_THRESHOLD
from worker.nodes.simulated import SimulatedNode


@pytest.mark.parametrize(("kind", "error"), [("refuse", Refused), ("silent", Unreachable), ("full", NoCapacity)])
def test_fault_affects_next_call_of_another_process(node, define_machine, run_in_other_process, kind, error):
    machine = define_machine()
    run_in_other_process(f"node.fault('start', {kind!r}, count=1)")
    with pytest.raises(error):
        node.start(machine.id)
    assert get_status(node, machine).power == Power.off
    node.start(machine.id)
    assert get_status(node, machine).power == Power.on


def test_lost_answer_does_the_work(node, define_machine):
    machine = define_machine()
    node.fault("start", "lost-answer")
    with pytest.raises(Unreachable):
        node.start(machine.id)
    assert get_status(node, machine).power == Power.on
    node.fault("create_disk", "lost-answer")
    with pytest.raises(Unreachable):
        node.create_disk(Disk("pool", "made", 5))
    assert Disk("pool", "made", 5) in node.disks("pool")


def test_slow_fault_delays_call(node, monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    node.fault("ping", "slow", seconds=7)
    node.ping()
    node.ping()
    node.machines()
    assert slept == [7, 7]


def test_silent_fault_costs_deadline(open_node, monkeypatch):
    slept, node = [], open_node("deadline=3")
    monkeypatch.setattr(time, "sleep", slept.append)
    node.fault("*", "silent", count=2)
    for call in (node.ping, node.machines):
        with pytest.raises(Unreachable):
            call()
    assert slept == [3, 3]
    assert node.machines() == []


def test_repeated_silent_faults_open_circuit(open_node, monkeypatch):
    slept, node = [], open_node("deadline=3")
    monkeypatch.setattr(time, "sleep", slept.append)
    node.fault("*", "silent")
    for _ in range(10):
        with pytest.raises(Unreachable):
            node.machines()
    assert slept == [3] * FAILURE_THRESHOLD
    node.clear()
    with pytest.raises(Unreachable):
        node.machines()
    node.ping()
    assert node.machines() == []


def test_fault_lasts_until_used_up_or_cleared(node):
    node.fault("*", "refuse", count=3)
    node.fault("machines", "slow", seconds=0)
    assert [(fault.operation, fault.kind, fault.remaining) for fault in node.faults()] == [
        ("*", "refuse", 3),
        ("machines", "slow", None),
    ]
    for _ in range(3):
        with pytest.raises(Refused):
            node.machines()
    assert [fault.operation for fault in node.faults()] == ["machines"]
    node.machines()
    node.fault("*", "refuse")
    node.clear()
    assert node.faults() == []
    node.machines()


def test_counted_fault_is_injected_exactly_that_often(node):
    node.fault("machines", "refuse", count=5)

    def refused(_):
        try:
            node.machines()
        except Refused:
            return True
        return False

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(refused, range(40))) == 5


def test_fault_affects_named_call_only(node, image):
    node.fault("has_image", "refuse")
    node.fault("machines", "refuse")
    node.put_image("pool", replace(image, name="another"))
    node.create_disk(Disk("pool", "disk", GiB), image)
    node.fault("*", "lost-answer", count=1)
    with pytest.raises(Unreachable):
        node.put_image("pool", replace(image, name="third"))
    node.create_disk(Disk("pool", "disk", GiB), image)


def test_invalid_fault_is_refused(node):
    for operation, kind in (("strat", "refuse"), ("start", "explode"), ("ping", "full"), ("close", "refuse")):
        with pytest.raises(ValueError, match=r"There are|These do"):
            node.fault(operation, kind)
    with pytest.raises(ValueError, match="at least once"):
        node.fault("start", "refuse", count=0)
    assert node.faults() == []


def test_no_ticket_fault_requires_tickets(node, tmp_path):
    assert not node.capabilities().screen_tickets
    with pytest.raises(ValueError, match="needs a ticket"):
        node.fault("console", "no-ticket")
    member = SimulatedNode(NodeSpec("member", "member", "simulated", "simulated://?tickets=1"), tmp_path)
    assert member.capabilities().screen_tickets
    with pytest.raises(ValueError, match="needs a ticket"):
        member.fault("start", "no-ticket")
    member.fault("console", "no-ticket", count=1)
    with pytest.raises(NoTicket):
        member.console("m", "password")
    with pytest.raises(NotOnNode):
        member.console("m", "password")


def test_watch_events_reports_a_lost_node(node):
    node.fault("*", "refuse", count=1)
    node.fault("watch_events", "silent", count=1)
    with pytest.raises(Unreachable):
        node.watch_events(lambda *event: None, lambda: False)
    with pytest.raises(Refused):
        node.ping()


def test_uri_with_unknown_option_is_refused(open_node):
    for options in ("core=5", "cores=many"):
        with pytest.raises(Refused):
            open_node(options)
    capabilities = open_node("cores=3&memory_gb=7").capabilities()
    assert (capabilities.cpu_cores, capabilities.memory) == (3, 7 * GiB)
