"""What lies below a guest moves with it: the variables of its firmware and what its TPM holds."""

import contextlib
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

import libvirt
import pytest

from tests.support.two_hypervisors import run_hypervisors
from worker.nodes.base import Disk, Machine, NodeSpec, Power, Refused
from worker.nodes.libvirt import LibvirtNode

pytestmark = pytest.mark.guest

POOL, SIZE = "firmware", 2**26
SETTLE_TIMEOUT_SECONDS, SETTLE_SECONDS = 300, 6
"""Seconds: for a firmware on a slow machine, and without a change until files stand still."""
KEEPING = libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM | libvirt.VIR_DOMAIN_UNDEFINE_KEEP_TPM


@dataclass
class Host:
    """A node, and the files that it keeps beside definitions."""

    node: LibvirtNode
    directory: Path
    uri: str

    def variables(self, machine):
        return self.directory / "lib" / "qemu" / "nvram" / f"{machine.name}_VARS.fd"

    def tpm(self, machine):
        return self.directory / "lib" / "swtpm" / machine.id / "tpm2" / "tpm2-00.permall"

    def left(self, machine):
        """What there is of the machine in its folders, by path."""
        folder = self.directory / "lib"
        return sorted(
            str(path.relative_to(folder))
            for path in folder.rglob("*")
            if machine.name in path.name or machine.id in path.name
        )


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    directory = tmp_path_factory.mktemp("pair")
    with run_hypervisors(directory) as started:
        made = []
        for number, host in enumerate(started):
            node = LibvirtNode(NodeSpec(f"n{number}", f"n{number}", "libvirt", host.uri), directory)
            node.prepare_pool(POOL, str(host.directory / f"disks{number}"))
            made.append(Host(node, host.directory, host.uri))
        yield made
        for host in made:
            host.node.close()


@pytest.fixture
def secure_boot(request):
    return getattr(request, "param", True)


@pytest.fixture
def machine(pair, secure_boot):
    """A machine that runs, so that its firmware and its TPM have something of their own."""
    here, _ = pair
    disk = Disk(POOL, uuid.uuid4().hex[:8], SIZE)
    for host in pair:
        host.node.create_disk(disk)
    made = Machine(str(uuid.uuid4()), disk.name, 1, 128, (disk,), tpm=True, secure_boot=secure_boot)
    here.node.define(made)
    here.node.start(made.id)
    yield made
    for host in pair:
        host.node.delete(made.id)
        host.node.delete_disk(POOL, disk.name)


def firmware_state(host, machine):
    """What its TPM and its firmware hold, as the files on the host have it."""
    files = [host.tpm(machine), *([host.variables(machine)] if machine.secure_boot else [])]
    return [path.read_bytes() for path in files]


def settled_state(host, machine):
    """The same, once both stand still: the firmware writes while it starts."""
    last, since, limit = None, time.monotonic(), time.monotonic() + SETTLE_TIMEOUT_SECONDS
    while time.monotonic() - since < SETTLE_SECONDS:
        assert time.monotonic() < limit, "the files never stood still"
        if (found := firmware_state(host, machine)) != last:
            last, since = found, time.monotonic()
        time.sleep(0.5)
    return last


def switch_off(host, machine):
    settled_state(host, machine)
    host.node.power_off(machine.id)
    return firmware_state(host, machine)


KINDS = pytest.mark.parametrize("secure_boot", [True, False], ids=["secure boot and TPM", "TPM"], indirect=True)


@KINDS
def test_a_machine_that_is_off_takes_both_with_it(pair, machine):
    here, there = pair
    before = switch_off(here, machine)
    here.node.migrate(machine, there.node)
    assert there.node.power(machine.id) is Power.off
    assert [a == b for a, b in zip(firmware_state(there, machine), before, strict=True)] == [True] * len(before)
    assert here.left(machine) == []
    there.node.start(machine.id)
    there.node.power_off(machine.id)
    there.node.delete(machine.id)
    assert there.left(machine) == []


@pytest.mark.parametrize("secure_boot", [False], ids=["TPM"], indirect=True)
def test_a_machine_that_runs_takes_its_tpm_with_it(pair, machine):
    here, there = pair
    before = settled_state(here, machine)
    here.node.migrate(machine, there.node)
    assert there.node.power(machine.id) is Power.on
    assert settled_state(there, machine) == before
    assert here.left(machine) == []
    there.node.power_off(machine.id)
    there.node.start(machine.id)


@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
def test_after_a_failure_both_are_at_home_and_only_there(pair, machine, on):
    """The disk there is too small, which QEMU notices when everything else is on its way."""
    here, there = pair
    before = settled_state(here, machine) if on else switch_off(here, machine)
    there.node.create_disk(replace(machine.disks[0], size=SIZE // 2))
    with pytest.raises(Refused):
        here.node.migrate(machine, there.node)
    assert here.node.power(machine.id) is (Power.on if on else Power.off)
    tpm, variables = firmware_state(here, machine)
    assert (tpm, len(variables)) == (before[0], len(before[1]))
    if not on:  # while it is on the firmware goes on writing
        assert variables == before[1]
    assert there.left(machine) == []
    assert machine.id not in {each.id for each in there.node.machines()}


def test_what_came_of_a_machine_that_did_not_is_dropped(pair, machine):
    """As a worker that died leaves it."""
    _, there = pair
    there.node.define(machine)
    there.node.start(machine.id)
    settled_state(there, machine)
    there.node.power_off(machine.id)
    there.node.clean_up_target(machine.id, [(POOL, machine.disks[0].name)], machine.name)
    assert there.left(machine) != []  # the node has the machine: it is the machine's own
    with contextlib.closing(libvirt.open(there.uri)) as line:
        line.lookupByUUIDString(machine.id).undefineFlags(KEEPING)
    assert there.left(machine) != []
    there.node.clean_up_target(machine.id, [(POOL, machine.disks[0].name)], machine.name)
    assert there.left(machine) == []
    assert [disk for disk in there.node.disks(POOL) if disk.name == machine.disks[0].name] == []
