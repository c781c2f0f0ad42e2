"""The connection to a node: it goes silent, it comes back, and a forked child opens its own."""

import os
import queue
import socket
import threading
import time
import traceback
import uuid

import pytest

from tests.support.cuttable_proxy import CuttableProxy
from worker.nodes import libvirt as driver
from worker.nodes.base import Disk, Machine, NodeSpec, Power, Refused, Unreachable
from worker.nodes.circuit_breaker import FAILURE_THRESHOLD
from worker.nodes.libvirt import LibvirtNode, events

pytestmark = pytest.mark.guest

MiB = 1024**2


@pytest.fixture
def cuttable_proxy(hypervisor):
    proxy = CuttableProxy(str(hypervisor.directory / "run" / "libvirt-sock"))
    yield proxy
    proxy.end()


@pytest.fixture
def short_timeouts(monkeypatch):
    monkeypatch.setattr(driver, "QUERY_TIMEOUT_SECONDS", 1)
    monkeypatch.setattr(events, "KEEPALIVE_INTERVAL_SECONDS", 1)
    monkeypatch.setattr(events, "MAX_KEEPALIVES_MISSED", 1)


@pytest.fixture
def node(hypervisor, cuttable_proxy, tmp_path):
    node = LibvirtNode(NodeSpec("node", "node", "libvirt", cuttable_proxy.uri), tmp_path)
    node.prepare_pool("line", str(hypervisor.directory / "line"))
    yield node
    node.close()


@pytest.fixture
def machine(node):
    """A machine that can run, without a guest in it."""
    machine = Machine(str(uuid.uuid4()), "line", 1, 64, (Disk("line", "blank", 64 * MiB),))
    node.create_disk(machine.disks[0])
    node.define(machine)
    yield machine
    node.delete(machine.id)


def test_silent_node_opens_circuit(node, cuttable_proxy, short_timeouts, monkeypatch):
    cuttable_proxy.connected.clear()
    for _ in range(FAILURE_THRESHOLD):
        with pytest.raises(Unreachable):
            node.machines()
    assert node.circuit.open
    with pytest.raises(Unreachable) as raised:
        node.machines()
    assert "circuit" in raised.value.detail
    cuttable_proxy.connected.set()
    with pytest.raises(Unreachable):
        node.machines()
    monkeypatch.undo()
    node.ping()
    node.machines()


def test_event_watcher_notices_lost_node(node, cuttable_proxy, short_timeouts):
    lost = queue.SimpleQueue()

    def watch():
        try:
            node.watch_events(lambda *event: None, lambda: False)
        except Unreachable as error:
            lost.put(error)

    threading.Thread(target=watch, daemon=True).start()
    node.machines()
    cuttable_proxy.connected.clear()
    assert lost.get(timeout=60)
    cuttable_proxy.connected.set()
    node.ping()


def test_refused_connection_is_unreachable(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    node = LibvirtNode(NodeSpec("node", "node", "libvirt", f"qemu+tcp://127.0.0.1:{port}/system"), tmp_path)
    with pytest.raises(Unreachable) as raised:
        node.ping()
    assert str(port) not in str(raised.value)


CHILD_SUCCEEDED, CHILD_FAILED, CHILD_TIMED_OUT = 0, 1, 2
"""Exit codes. A child can time out because of the lock that `connection.event_loop_pid` describes."""


def test_forked_child_opens_own_connection(node, machine):
    received, stop = queue.SimpleQueue(), threading.Event()
    watcher = threading.Thread(target=node.watch_events, args=(lambda *event: received.put(event), stop.is_set))
    watcher.start()
    while received.empty():
        node.start(machine.id)
        node.power_off(machine.id)
    time.sleep(0.5)  # all threads have left libvirt
    while not received.empty():
        received.get()
    assert CHILD_SUCCEEDED in (fork_child(node, machine) for _ in range(3))
    assert [status.power for status in node.machines() if status.id == machine.id] == [Power.on]
    node.power_off(machine.id)
    while received.get(timeout=30) != (machine.id, Power.off):
        pass
    stop.set()
    watcher.join()


def fork_child(node, machine) -> int:
    child = os.fork()
    if not child:
        code = CHILD_FAILED
        try:
            code = use_node_in_child(node, machine)
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code != CHILD_FAILED
    return code


def use_node_in_child(node, machine) -> int:
    """Succeed when everything works but watching events. Like any caller it repeats a call that was lost."""
    try:
        retry_call(lambda: node.start(machine.id))
        node.close()
        retry_call(node.ping)
        with pytest.raises(Refused):
            node.watch_events(lambda *event: None, lambda: True)
        assert any(status.id == machine.id for status in node.machines())
    except Unreachable:
        return CHILD_TIMED_OUT
    return CHILD_SUCCEEDED


def retry_call(call):
    try:
        call()
    except Unreachable:
        call()
