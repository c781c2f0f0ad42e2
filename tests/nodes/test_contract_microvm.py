"""What every driver promises about micro VMs."""

import io
import uuid
from dataclasses import replace

import pytest

from tests.nodes.driver_lab import (
    POOL,
    build_nic,
    find_status,
    is_agent_answering,
    numbers,
    wait_for_agent,
)
from worker.nodes.base import Disk, GiB, Kernel, Machine, NotOnNode, Power, Refused


@pytest.fixture(scope="session")
def kernel(lab):
    """The tiny guest's kernel, as volumes of the node."""
    volumes = []
    for name, content in zip(("kernel", "initrd"), lab.read_kernel_files(), strict=True):
        volumes.append(lab.node.upload_media(POOL, name, io.BytesIO(content), len(content)))
    yield Kernel(*volumes, "root=LABEL=tiny rw quiet cryptomgr.notests net.ifnames=0 panic=10")
    for volume in volumes:
        lab.node.delete_disk(POOL, volume.name)


@pytest.fixture(scope="session")
def booted_microvm(lab, kernel):
    """A micro VM that boots once for all tests."""
    disk = Disk(POOL, f"disk-{next(numbers)}", GiB)
    lab.node.create_disk(disk, lab.image)
    facts = {"kernel": kernel, "cpu_quota": 180}
    nics = (build_nic(lab),)
    machine = Machine(str(uuid.uuid4()), f"contract-{next(numbers)}", 1, 192, (disk,), nics, **facts)
    lab.node.define(machine)
    lab.node.start(machine.id)
    wait_for_agent(lab.node, machine.id)
    yield machine
    lab.node.delete(machine.id)
    lab.node.delete_disk(POOL, disk.name)


@pytest.fixture
def microvm(lab, booted_microvm):
    """The micro VM, running."""
    lab.node.start(booted_microvm.id)
    wait_for_agent(lab.node, booted_microvm.id)
    return booted_microvm


def test_micro_vm_has_no_screen_and_no_secure_boot(node, microvm):
    with pytest.raises(Refused):
        node.console(microvm.id, "sesame")
    with pytest.raises(Refused):
        node.define(replace(microvm, secure_boot=True))
    with pytest.raises(NotOnNode):
        node.define(replace(microvm, kernel=replace(microvm.kernel, initrd=Disk(POOL, "no-such-file", 1))))
    assert is_agent_answering(node, microvm.id)
    assert find_status(node, microvm.id).power == Power.on
