"""The circuit breaker: a silent node costs a caller one deadline, and after several failures nothing."""

import os
import threading
import time

import pytest

from worker.nodes import circuit_breaker as circuits
from worker.nodes.base import Refused, Unreachable
from worker.nodes.circuit_breaker import FAILURE_THRESHOLD, CircuitBreaker


@pytest.fixture
def circuit():
    return CircuitBreaker("node")


@pytest.fixture
def blocked_call():
    """A call that does not return before the test ends."""
    end = threading.Event()
    yield end.wait
    end.set()


def raise_refused():
    raise Refused("No.")


def open_circuit(circuit, blocked_call):
    for _ in range(FAILURE_THRESHOLD):
        with pytest.raises(Unreachable):
            circuit.run(blocked_call, 0.01)


def test_call_returns_result_or_raises_error(circuit):
    assert circuit.run(lambda: 42, 1) == 42
    with pytest.raises(Refused):
        circuit.run(raise_refused, 1)


def test_silent_call_ends_at_deadline(circuit, blocked_call):
    with pytest.raises(Unreachable) as raised:
        circuit.run(blocked_call, 0.01)
    assert "node" not in str(raised.value)
    assert "node" in raised.value.detail


def test_repeated_silence_opens_circuit(circuit, blocked_call):
    open_circuit(circuit, blocked_call)
    ran = []
    with pytest.raises(Unreachable):
        circuit.run(lambda: ran.append(True), 1)
    assert not ran


def test_successful_probe_closes_circuit(circuit, blocked_call):
    open_circuit(circuit, blocked_call)
    assert circuit.run(lambda: 1, 1, probe=True) == 1
    assert circuit.run(lambda: 2, 1) == 2


def test_open_circuit_lets_one_call_through_after_pause(circuit, blocked_call, monkeypatch):
    monkeypatch.setattr(circuits, "CIRCUIT_RETRY_SECONDS", 0)
    open_circuit(circuit, blocked_call)
    assert circuit.run(lambda: 1, 1) == 1
    assert not circuit.open


def test_refusal_does_not_open_circuit(circuit, blocked_call):
    for _ in range(2 * FAILURE_THRESHOLD):
        with pytest.raises(Unreachable):
            circuit.run(blocked_call, 0.01)
        with pytest.raises(Refused):
            circuit.run(raise_refused, 1, probe=True)
    assert not circuit.open


def test_call_with_recent_activity_outlives_deadline(circuit):
    polls, end = [], threading.Event()

    def get_last_activity():
        polls.append(True)
        if len(polls) == 5:
            end.set()
        return time.monotonic()

    assert circuit.run(end.wait, 0.01, last_activity=get_last_activity)


def test_calls_in_flight_are_limited(circuit, blocked_call, monkeypatch):
    monkeypatch.setattr(circuits, "MAX_CALLS_IN_FLIGHT", 2)
    circuit.reset()
    for _ in range(2):
        with pytest.raises(Unreachable):
            circuit.run(blocked_call, 0.01, probe=True)
    with pytest.raises(Unreachable) as raised:
        circuit.run(lambda: 1, 0.01, probe=True)
    assert "2 calls" in raised.value.detail


def test_forked_child_starts_with_closed_circuit(circuit, blocked_call):
    open_circuit(circuit, blocked_call)
    child = os.fork()
    if not child:
        os._exit(0 if circuit.run(lambda: "spoke", 5) == "spoke" else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert circuit.open
