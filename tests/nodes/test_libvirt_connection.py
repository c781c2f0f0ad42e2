"""The line to a node: it goes silent, it comes back, and a child of a fork has one of its own."""

import contextlib
import os
import queue
import select
import socket
import threading
import time
import traceback
import uuid

import pytest

from worker.nodes import libvirt as driver
from worker.nodes.base import Disk, Machine, NodeSpec, Power, Refused, Unreachable
from worker.nodes.circuit_breaker import FAILURE_THRESHOLD
from worker.nodes.libvirt import LibvirtNode, events

pytestmark = pytest.mark.guest

MiB = 1024**2


class CuttableProxy:
    """Carries a TCP port of this machine to a libvirt socket, until it is cut: then nothing moves, and nothing ends."""

    def __init__(self, path: str):
        self.path, self.whole, self.ended, self.ends = path, threading.Event(), False, []
        self.whole.set()
        self.door = socket.create_server(("127.0.0.1", 0))
        self.uri = f"qemu+tcp://127.0.0.1:{self.door.getsockname()[1]}/system"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                near = self.door.accept()[0]
                far = socket.socket(socket.AF_UNIX)
                far.connect(self.path)
                self.ends += [near, far]
                threading.Thread(target=self.carry, args=(near, far), daemon=True).start()

    def carry(self, near, far):
        with contextlib.suppress(OSError, ValueError):  # closed meanwhile
            while True:
                for end in select.select([near, far], [], [])[0]:
                    data = end.recv(65536)
                    self.whole.wait()
                    (far if end is near else near).sendall(data)
                    if not data:
                        return near.close()

    def end(self):
        self.whole.set()
        for end in (self.door, *self.ends):
            end.close()


@pytest.fixture
def cuttable_proxy(hypervisor):
    wire = CuttableProxy(str(hypervisor.directory / "run" / "libvirt-sock"))
    yield wire
    wire.end()


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
    """One that can run, without a guest in it."""
    machine = Machine(str(uuid.uuid4()), "line", 1, 64, (Disk("line", "blank", 64 * MiB),))
    node.create_disk(machine.disks[0])
    node.define(machine)
    yield machine
    node.delete(machine.id)


def test_a_silent_node_costs_little_and_then_nothing(node, cuttable_proxy, short_timeouts, monkeypatch):
    cuttable_proxy.whole.clear()
    for _ in range(FAILURE_THRESHOLD):
        with pytest.raises(Unreachable):
            node.machines()
    assert node.circuit.open
    with pytest.raises(Unreachable) as raised:
        node.machines()
    assert "circuit" in raised.value.detail
    cuttable_proxy.whole.set()
    with pytest.raises(Unreachable):
        node.machines()
    monkeypatch.undo()
    node.ping()
    node.machines()


def test_a_watcher_learns_that_the_node_is_lost(node, cuttable_proxy, short_timeouts):
    lost = queue.SimpleQueue()

    def watch():
        try:
            node.watch_events(lambda *event: None, lambda: False)
        except Unreachable as error:
            lost.put(error)

    threading.Thread(target=watch, daemon=True).start()
    node.machines()
    cuttable_proxy.whole.clear()
    assert lost.get(timeout=60)
    cuttable_proxy.whole.set()
    node.ping()


def test_nobody_listens_there(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    node = LibvirtNode(NodeSpec("node", "node", "libvirt", f"qemu+tcp://127.0.0.1:{port}/system"), tmp_path)
    with pytest.raises(Unreachable) as raised:
        node.ping()
    assert str(port) not in str(raised.value)


def test_a_child_of_a_fork_has_its_own_line(node, machine):
    heard, stop = queue.SimpleQueue(), threading.Event()
    watcher = threading.Thread(target=node.watch_events, args=(lambda *event: heard.put(event), stop.is_set))
    watcher.start()
    while heard.empty():
        node.start(machine.id)
        node.power_off(machine.id)
    time.sleep(0.5)  # all threads are out of libvirt
    while not heard.empty():
        heard.get()
    child = os.fork()
    if not child:
        os._exit(in_the_child(node, machine))
    assert os.waitpid(child, 0)[1] == 0
    assert [seen.power for seen in node.machines() if seen.id == machine.id] == [Power.on]
    node.power_off(machine.id)
    while heard.get(timeout=30) != (machine.id, Power.off):
        pass
    stop.set()
    watcher.join()


def in_the_child(node, machine) -> int:
    """0 when it can do everything but watch. As any caller it asks once more where a call was lost on the way."""
    try:
        retry_call(lambda: node.start(machine.id))
        node.close()
        retry_call(node.ping)
        node.watch_events(lambda *event: None, lambda: True)
    except Refused:
        return 0 if any(seen.id == machine.id for seen in node.machines()) else 2
    except BaseException:
        traceback.print_exc()
        return 3
    return 4


def retry_call(call):
    try:
        call()
    except Unreachable:
        call()
