"""What lies below a guest migrates with it: the variables of its firmware (NVRAM) and the state of its TPM."""

import contextlib
import os
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

import libvirt
import pytest

from worker.nodes.base import Disk, Machine, NodeSpec, Power, Refused
from worker.nodes.libvirt import LibvirtNode

pytestmark = pytest.mark.guest

POOL, DISK_BYTES = "firmware", 2**26
SETTLE_TIMEOUT_SECONDS = 300
"""Time limit for a firmware on a slow machine."""

SETTLE_SECONDS = 10
"""Seconds without a change after which a TPM's state counts as final: the firmware writes while it starts."""

UNDEFINE_FLAGS = libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM | libvirt.VIR_DOMAIN_UNDEFINE_KEEP_TPM
NVRAM_MARK = b"written by a test"


@dataclass
class Host:
    """A node, and the files that it keeps beside definitions."""

    node: LibvirtNode
    directory: Path
    uri: str

    def nvram_path(self, machine):
        return self.directory / "lib" / "qemu" / "nvram" / f"{machine.name}_VARS.fd"

    def tpm_path(self, machine):
        return self.directory / "lib" / "swtpm" / machine.id / "tpm2" / "tpm2-00.permall"

    def list_leftovers(self, machine):
        """Return the paths of the machine's files below the folders for state."""
        folder = self.directory / "lib"
        return sorted(
            str(path.relative_to(folder))
            for path in folder.rglob("*")
            if machine.name in path.name or machine.id in path.name
        )


@pytest.fixture(scope="module")
def hosts(hypervisor_pair, tmp_path_factory):
    """The source and the target."""
    directory, hosts = tmp_path_factory.mktemp("pair"), []
    for number, host in enumerate(hypervisor_pair):
        node = LibvirtNode(NodeSpec(f"n{number}", f"n{number}", "libvirt", host.uri), directory)
        node.prepare_pool(POOL, str(host.directory / f"disks{number}"))
        hosts.append(Host(node, host.directory, host.uri))
    yield hosts
    for host in hosts:
        host.node.close()


@pytest.fixture
def secure_boot(request):
    return getattr(request, "param", True)


@pytest.fixture
def machine(hosts, secure_boot):
    """A machine that runs on the source. Its NVRAM has a mark that no other has and the firmware does not touch."""
    source, _ = hosts
    disk = Disk(POOL, uuid.uuid4().hex[:8], DISK_BYTES)
    for host in hosts:
        host.node.create_disk(disk)
    machine = Machine(str(uuid.uuid4()), disk.name, 1, 128, (disk,), tpm=True, secure_boot=secure_boot)
    source.node.define(machine)
    if secure_boot:
        mark_nvram(source, machine)
    source.node.start(machine.id)
    yield machine
    for host in hosts:
        host.node.delete(machine.id)
        host.node.delete_disk(POOL, disk.name)


def mark_nvram(host, machine):
    """Start the machine so that libvirt creates its NVRAM, but no firmware runs; then write the mark into it."""
    with contextlib.closing(libvirt.open(host.uri)) as connection:
        domain = connection.lookupByUUIDString(machine.id)
        domain.createWithFlags(libvirt.VIR_DOMAIN_START_PAUSED)
        domain.destroy()
    with host.nvram_path(machine).open("r+b") as file:
        file.seek(-len(NVRAM_MARK), os.SEEK_END)
        file.write(NVRAM_MARK)


def read_state(host, machine):
    """Return the contents of its TPM and its NVRAM, as the files on the host have them."""
    files = [host.tpm_path(machine), *([host.nvram_path(machine)] if machine.secure_boot else [])]
    return [path.read_bytes() for path in files]


def read_settled_tpm(host, machine):
    """Return the TPM's state once it no longer changes."""
    last, since, limit = None, time.monotonic(), time.monotonic() + SETTLE_TIMEOUT_SECONDS
    while time.monotonic() - since < SETTLE_SECONDS:
        assert time.monotonic() < limit, "the TPM's state never settled"
        if (tpm := host.tpm_path(machine).read_bytes()) != last:
            last, since = tpm, time.monotonic()
        time.sleep(0.5)
    return last


def switch_off(host, machine):
    """Turn the machine off; return what its TPM and its NVRAM hold."""
    host.node.power_off(machine.id)
    return read_state(host, machine)


def has_mark(host, machine):
    return host.nvram_path(machine).read_bytes().endswith(NVRAM_MARK)


@pytest.mark.parametrize("secure_boot", [True, False], ids=["secure boot and TPM", "TPM"], indirect=True)
def test_migration_while_off_moves_nvram_and_tpm(hosts, machine):
    source, target = hosts
    before = switch_off(source, machine)
    source.node.migrate(machine, target.node)
    assert target.node.power(machine.id) is Power.off
    assert [a == b for a, b in zip(read_state(target, machine), before, strict=True)] == [True] * len(before)
    assert source.list_leftovers(machine) == []
    target.node.start(machine.id)
    target.node.power_off(machine.id)
    target.node.delete(machine.id)
    assert target.list_leftovers(machine) == []


@pytest.mark.parametrize("secure_boot", [True, False], ids=["secure boot and TPM", "TPM"], indirect=True)
def test_migration_of_running_machine_moves_nvram_and_tpm(hosts, machine, secure_boot):
    """The firmware goes on writing its NVRAM meanwhile, so that is recognized by its mark."""
    source, target = hosts
    tpm = read_settled_tpm(source, machine)
    source.node.migrate(machine, target.node)
    assert target.node.power(machine.id) is Power.on
    assert read_settled_tpm(target, machine) == tpm
    assert not secure_boot or has_mark(target, machine)
    assert source.list_leftovers(machine) == []
    target.node.power_off(machine.id)
    target.node.start(machine.id)


@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
def test_failed_migration_keeps_nvram_and_tpm_on_source_only(hosts, machine, on):
    """The disk on the target is too small, which QEMU notices when everything else is on its way."""
    source, target = hosts
    before = [read_settled_tpm(source, machine), None] if on else switch_off(source, machine)
    target.node.create_disk(replace(machine.disks[0], size=DISK_BYTES // 2))
    with pytest.raises(Refused):
        source.node.migrate(machine, target.node)
    assert source.node.power(machine.id) is (Power.on if on else Power.off)
    tpm, nvram = read_state(source, machine)
    assert tpm == before[0]
    assert has_mark(source, machine)
    if not on:  # while it is on the firmware goes on writing
        assert nvram == before[1]
    assert target.list_leftovers(machine) == []
    assert machine.id not in {status.id for status in target.node.machines()}


def test_clean_up_target_deletes_nvram_and_tpm_without_machine(hosts, machine):
    """As a worker that died leaves it."""
    _, target = hosts
    target.node.define(machine)
    target.node.start(machine.id)
    target.node.power_off(machine.id)
    target.node.clean_up_target(machine.id, [(POOL, machine.disks[0].name)], machine.name)
    assert target.list_leftovers(machine) != []  # the node has the machine: it is the machine's own
    with contextlib.closing(libvirt.open(target.uri)) as connection:
        connection.lookupByUUIDString(machine.id).undefineFlags(UNDEFINE_FLAGS)
    assert target.list_leftovers(machine) != []
    target.node.clean_up_target(machine.id, [(POOL, machine.disks[0].name)], machine.name)
    assert target.list_leftovers(machine) == []
    assert [disk for disk in target.node.disks(POOL) if disk.name == machine.disks[0].name] == []
