"""`connect` returns one object for each node and process."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from worker.nodes import DRIVERS, connect
from worker.nodes.base import Machine, NodeSpec, Refused

SPEC = NodeSpec("node", "node", "simulated", "simulated://?cores=4")


def test_connect_returns_same_object_to_all_threads(tmp_path):
    with ThreadPoolExecutor(8) as threads:
        nodes = list(threads.map(lambda _: connect(SPEC, tmp_path), range(16)))
    assert len(set(map(id, nodes))) == 1
    assert connect(replace(SPEC, id="another"), tmp_path) is not nodes[0]


def test_changed_uri_connects_new_object(tmp_path, monkeypatch):
    old, closed = connect(SPEC, tmp_path), []
    monkeypatch.setattr(old, "close", lambda: closed.append(True))
    new = connect(replace(SPEC, uri="simulated://?cores=8"), tmp_path)
    assert closed == [True]
    assert new.capabilities().cpu_cores == 8
    assert connect(replace(SPEC, uri="simulated://?cores=8"), tmp_path) is new


def test_invalid_uri_keeps_existing_object(tmp_path):
    old = connect(SPEC, tmp_path)
    with pytest.raises(Refused):
        connect(replace(SPEC, uri="simulated://?cores=none"), tmp_path)
    assert connect(SPEC, tmp_path) is old


def test_unknown_driver_is_refused(tmp_path):
    with pytest.raises(Refused) as refused:
        connect(replace(SPEC, driver="zen"), tmp_path)
    assert "zen" in str(refused.value)
    assert all(driver in refused.value.detail for driver in DRIVERS)


WITHOUT_LIBVIRT = """
import sys
from pathlib import Path
from worker.nodes import NodeSpec, Refused, connect

sys.modules["libvirt"] = None
connect(NodeSpec("node", "node", "simulated", "simulated://"), Path(sys.argv[1])).ping()
try:
    connect(NodeSpec("other", "other", "libvirt", "qemu:///system"), Path(sys.argv[1]))
except Refused as refused:
    print(refused.detail)
"""


def test_simulated_nodes_work_without_libvirt(tmp_path):
    command = [sys.executable, "-c", WITHOUT_LIBVIRT, str(tmp_path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "libvirt-python" in output


def test_forked_child_shares_no_connection(tmp_path):
    node = connect(SPEC, tmp_path)
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            node.define(Machine("parent", "parent", 1, 64, ()))

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    children = []
    for number in range(5):
        child = os.fork()
        if child == 0:
            run_forked_child(f"child-{number}", node, tmp_path)
        children.append(child)
    ends = [os.waitpid(child, 0)[1] for child in children]
    stop.set()
    for thread in threads:
        thread.join()
    assert ends == [0] * 5
    assert {machine.id for machine in node.machines()} == {"parent", *(f"child-{number}" for number in range(5))}


def run_forked_child(name, inherited, data_dir):
    """Never return: the test continues in the parent only."""
    try:
        own = connect(SPEC, data_dir)
        own.define(Machine(name, name, 1, 64, ()))
        os._exit(own is inherited or inherited.state.connection is not None)
    finally:
        os._exit(2)
