"""A simulated node with options, shared by processes."""

import struct
import subprocess
import sys
import uuid

import pytest

from tests.nodes.simulated.other_process import OTHER_PROCESS_SCRIPT
from worker.nodes.base import Disk, GiB, Image, Machine, Nic, NodeSpec
from worker.nodes.simulated import SimulatedNode


@pytest.fixture
def open_node(tmp_path):
    """Return a function that opens the node with options, as any process would."""

    def open_with(options="deadline=0.01&storage_gb=100&memory_gb=4"):
        return SimulatedNode(NodeSpec("node", "node", "simulated", f"simulated://?{options}"), tmp_path)

    return open_with


@pytest.fixture
def node(open_node):
    node = open_node()
    node.prepare_pool("pool", "/pool")
    return node


@pytest.fixture
def run_in_other_process(tmp_path):
    """Return a function that runs a line in another process that has the node open, and returns its output."""

    def run(line):
        command = [sys.executable, "-c", OTHER_PROCESS_SCRIPT + line, str(tmp_path)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    return run


@pytest.fixture
def image(tmp_path, node):
    file = tmp_path / "image"
    file.write_bytes(b"QFI\xfb" + bytes(20) + struct.pack(">Q", GiB))
    image = Image("system", file, file.stat().st_size)
    node.put_image("pool", image)
    return image


@pytest.fixture
def define_machine(node, image):
    """Return a function that defines a machine with a guest."""

    def new(name="machine", **facts):
        disk = Disk("pool", f"{name}-disk", GiB)
        node.create_disk(disk, image)
        nic = Nic(f"52:54:00:{name.encode()[:3].hex(':')}", "default", ("10.0.0.2", "fd00::2"))
        facts = {"cpu_cores": 2, "memory_mb": 1024, "disks": (disk,), "nics": (nic,), **facts}
        machine = Machine(str(uuid.uuid5(uuid.NAMESPACE_OID, name)), name, **facts)
        node.define(machine)
        return machine

    return new
