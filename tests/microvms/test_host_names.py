"""Looking up host names of nodes and of the panel, whose addresses micro VMs must not reach."""

import threading
import time

import pytest

from worker.tasks import microvm_host_names, microvm_network


@pytest.fixture
def answers(monkeypatch):
    """What the resolver does for a name: return addresses, raise, or call a function."""
    answers = {}

    def getaddrinfo(name, *_):
        answer = answers[name]
        if isinstance(answer, OSError):
            raise answer
        return [(0, 0, 0, "", (address, 0)) for address in (answer() if callable(answer) else answer)]

    monkeypatch.setattr(microvm_host_names.socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(microvm_host_names, "resolved_names", {})
    monkeypatch.setattr(microvm_host_names, "lookups", {})
    monkeypatch.setattr(microvm_host_names, "NAME_CACHE_SECONDS", 0.0)
    return answers


@pytest.fixture
def silence(answers):
    """Return a function that lets the resolver be silent until the test ends, or until `event` is set."""
    events = []

    def make_silent(*names, event=None):
        events.append(event or threading.Event())
        answers.update(dict.fromkeys(names, lambda: events[-1].wait(30) and ["32.0.0.9"]))

    yield make_silent
    for event in events:
        event.set()


def test_names_are_resolved_and_stay_when_that_fails(answers):
    answers["node.example.com"] = ["32.0.0.2", "32.0.0.1"]
    assert microvm_host_names.resolve("node.example.com") == ["32.0.0.1", "32.0.0.2"]
    answers["node.example.com"] = OSError("no server")
    assert microvm_host_names.resolve("node.example.com") == ["32.0.0.1", "32.0.0.2"]
    assert microvm_host_names.resolve("31.0.0.7", "::1") == ["31.0.0.7"]


def test_silent_resolver_holds_a_caller_for_a_short_time(answers, silence, monkeypatch):
    """All names have one limit, and their last addresses count."""
    monkeypatch.setattr(microvm_host_names, "LOOKUP_SECONDS", 0.3)
    names = [f"{number}.example.com" for number in range(4)]
    answers[names[0]] = ["32.0.0.1"]
    assert microvm_host_names.resolve(names[0]) == ["32.0.0.1"]
    silence(*names)
    began_at = time.monotonic()
    assert microvm_host_names.resolve(*names) == ["32.0.0.1"]
    assert time.monotonic() - began_at < 1
    monkeypatch.setattr(microvm_host_names, "NAME_CACHE_SECONDS", 60.0)
    microvm_host_names.resolve(*names)
    began_at = time.monotonic()
    assert microvm_host_names.resolve(*names) == ["32.0.0.1"]
    assert time.monotonic() - began_at < 0.2


def test_late_answer_counts_for_the_next_caller(answers, silence, monkeypatch):
    monkeypatch.setattr(microvm_host_names, "LOOKUP_SECONDS", 0.1)
    event = threading.Event()
    silence("node.example.com", event=event)
    assert microvm_host_names.resolve("node.example.com") == []
    event.set()
    microvm_host_names.lookups["node.example.com"].result(10)
    assert microvm_host_names.resolve("node.example.com") == ["32.0.0.9"]


def test_silent_resolver_does_not_open_the_network(rolled_back_app, answers, silence, change_config, monkeypatch):
    """Private networks stay refused, and so does this machine."""
    monkeypatch.setattr(microvm_host_names, "LOOKUP_SECONDS", 0.1)
    monkeypatch.setattr(microvm_network, "list_own_addresses", lambda: ["31.0.0.6"])
    change_config(sandbox_domain="sbx.example.net")
    silence("api.sbx.example.net", "localhost")
    assert "31.0.0.6" in microvm_network.list_platform_addresses("qemu:///system")
