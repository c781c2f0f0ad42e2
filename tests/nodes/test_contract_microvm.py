"""What every driver promises about micro VMs and saved states."""

import io
import uuid
from dataclasses import replace

import pytest

from tests.nodes.driver_lab import (
    POOL,
    build_nic,
    find_status,
    get_agreed_power,
    is_agent_answering,
    numbers,
    read_boot_id,
    wait_for_agent,
    wait_until,
    write_file,
)
from worker.nodes.base import AgentUnavailable, Disk, GiB, Kernel, Machine, NotOnNode, Power, Refused


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
    yield booted_microvm
    if not lab.node.has_saved_state(booted_microvm.id):
        lab.node.save(booted_microvm.id)


def is_libvirt(node):
    return type(node).__name__ == "LibvirtNode"


def test_saved_machine_is_off_and_continues_at_start(lab, node, microvm):
    boot_id = read_boot_id(node, microvm.id)
    node.suspend(microvm.id)
    for _ in range(2):
        node.save(microvm.id)
        assert get_agreed_power(node, microvm.id) == Power.off
        assert lab.open_node().has_saved_state(microvm.id)
    with pytest.raises(AgentUnavailable):
        node.agent_ping(microvm.id)
    node.start(microvm.id)
    assert get_agreed_power(node, microvm.id) == Power.on
    wait_for_agent(node, microvm.id)
    assert read_boot_id(node, microvm.id) == boot_id
    assert not node.has_saved_state(microvm.id)


def test_saved_machine_refuses_changes_that_its_state_cannot_follow(node, microvm, new_disk):
    node.save(microvm.id)
    for call, arguments in (
        (node.attach_disk, (new_disk(),)),
        (node.detach_disk, (POOL, microvm.disks[0].name)),
        (node.set_media, ("primary", None)),
    ):
        with pytest.raises(Refused):
            call(microvm.id, *arguments)
    assert node.has_saved_state(microvm.id)


def test_saved_machine_continues_with_changed_nics(node, microvm):
    [nic] = microvm.nics

    def carrier():
        return node.agent_run(microvm.id, ["cat", "/sys/class/net/eth0/carrier"]).output.strip()

    if is_libvirt(node):
        node.agent_run(microvm.id, ["ip", "link", "set", "eth0", "up"])
    wait_until(lambda: carrier() == "1")
    node.save(microvm.id)
    node.update_nics(microvm.id, (replace(nic, connected=False),))
    node.start(microvm.id)
    wait_for_agent(node, microvm.id)
    wait_until(lambda: carrier() in ("0", ""))
    node.update_nics(microvm.id, (nic,))
    wait_until(lambda: carrier() == "1")


def test_saved_state_is_deleted_by_request_definition_and_deletion(node, new_machine):
    machine = new_machine()
    with pytest.raises(Refused):
        node.save(machine.id)
    with pytest.raises(NotOnNode):
        node.has_saved_state(str(uuid.uuid4()))
    for remove in (lambda: node.delete_saved_state(machine.id), lambda: node.define(replace(machine, name="renamed"))):
        node.start(machine.id)
        node.save(machine.id)
        remove()
        assert not node.has_saved_state(machine.id)
    node.delete_saved_state(machine.id)
    node.start(machine.id)
    node.save(machine.id)
    for _ in range(2):
        node.delete(machine.id)
    node.define(machine)
    assert not node.has_saved_state(machine.id)


def test_snapshot_with_memory_of_micro_vm_removes_saved_state(node, microvm):
    write_file(node, microvm, "/root/file", "before")
    node.create_snapshot(microvm.id, "memory", memory=True)
    write_file(node, microvm, "/root/file", "after")
    node.save(microvm.id)
    node.revert_snapshot(microvm.id, "memory", memory=True)
    assert not node.has_saved_state(microvm.id)
    assert get_agreed_power(node, microvm.id) == Power.on
    wait_for_agent(node, microvm.id)
    assert node.agent_run(microvm.id, ["cat", "/root/file"]).output == "before"
    node.delete_snapshot(microvm.id, "memory")


def test_micro_vm_has_no_screen_and_no_secure_boot(node, microvm):
    with pytest.raises(Refused):
        node.console(microvm.id, "sesame")
    with pytest.raises(Refused):
        node.define(replace(microvm, secure_boot=True))
    with pytest.raises(NotOnNode):
        node.define(replace(microvm, kernel=replace(microvm.kernel, initrd=Disk(POOL, "no-such-file", 1))))
    assert is_agent_answering(node, microvm.id)
    assert find_status(node, microvm.id).power == Power.on
