"""The hypervisor that the panel starts on its own machine."""

import os
import re
import signal
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.support.local_hypervisor import claim_network
from worker.nodes.base import Disk, Machine, Nic, NodeSpec, Power
from worker.nodes.libvirt import LibvirtNode, confinement, neighbors, private_daemon


def test_missing_programs_are_named_with_their_packages(monkeypatch):
    monkeypatch.setattr(private_daemon.shutil, "which", lambda program, path: None)
    monkeypatch.setattr(private_daemon.os, "geteuid", lambda: 1000)
    lacking = " ".join(private_daemon.list_missing())
    for program, package in private_daemon.REQUIRED_PROGRAMS.items():
        assert f"{program} is missing (package {package})" in lacking
    assert "root" in lacking


def test_start_is_refused_when_programs_are_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(private_daemon, "list_missing", lambda: ["The program libvirtd is missing."])
    with pytest.raises(private_daemon.NoHypervisor) as refused:
        private_daemon.start(tmp_path)
    assert "libvirtd is missing" in str(refused.value)


def test_path_too_long_for_socket_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(private_daemon, "list_missing", list)
    with pytest.raises(private_daemon.NoHypervisor) as refused:
        private_daemon.start(tmp_path / ("x" * 100))
    assert "too long" in str(refused.value)


@pytest.mark.guest
def test_guests_survive_daemon_restart_and_stop_ends_everything(hypervisor_directory):
    network = claim_network()
    node = start_node(hypervisor_directory, network)
    node.prepare_pool("pool", str(hypervisor_directory / "pool"))
    machine = Machine(str(uuid.uuid4()), "m", 1, 64, (Disk("pool", "d", 1024**2),))
    node.create_disk(machine.disks[0])
    node.define(machine)
    node.start(machine.id)
    daemon = read_pid(hypervisor_directory / "run" / "libvirtd.pid")
    guest = read_pid(hypervisor_directory / "run" / "qemu" / "m.pid")

    private_daemon.start(hypervisor_directory, network)
    assert read_pid(hypervisor_directory / "run" / "libvirtd.pid") == daemon

    os.kill(daemon, signal.SIGKILL)
    private_daemon.start(hypervisor_directory, network)
    assert [(seen.id, seen.power) for seen in node.machines()] == [(machine.id, Power.on)]
    assert network.bridge in list_interfaces()

    control_groups = Path("/sys/fs/cgroup").glob(f"**/{private_daemon.get_host_uuid(hypervisor_directory)}")
    private_daemon.stop(hypervisor_directory)
    assert not is_alive(guest)
    assert network.bridge not in list_interfaces()
    assert not list(control_groups)
    private_daemon.stop(hypervisor_directory)

    private_daemon.start(hypervisor_directory, network)
    assert [(seen.id, seen.power) for seen in node.machines()] == [(machine.id, Power.off)]
    node.close()


@pytest.mark.guest
def test_stop_removes_own_nic_rules_and_start_restores_them(hypervisor_directory):
    network = claim_network()
    node = start_node(hypervisor_directory, network)
    nic = Nic("52:54:00:0a:0c:01", "public", ("fd00::31",))
    foreign_nic = Nic("52:54:00:0a:0c:02", "public", ("fd00::32",))
    machine = Machine(str(uuid.uuid4()), "m", 1, 64, (), (nic,))
    node.define(machine)
    node.start(machine.id)
    neighbors.allow_advertisements([foreign_nic])
    assert {nic.mac, foreign_nic.mac} <= list_macs_with_rules()
    private_daemon.stop(hypervisor_directory)
    assert list_macs_with_rules() & {nic.mac, foreign_nic.mac} == {foreign_nic.mac}
    private_daemon.start(hypervisor_directory, network)
    assert nic.mac in list_macs_with_rules()
    node.delete(machine.id)
    assert nic.mac not in list_macs_with_rules()
    neighbors.delete_rules([foreign_nic.mac])
    node.close()


@pytest.mark.guest
def test_daemon_starts_confined_with_file_systems_mounted_below_dev(hypervisor_directory):
    mount_points = [Path("/dev/hugepages"), Path("/dev/mqueue")]
    new = [path for path in mount_points if not path.exists()]
    for path in new:
        path.mkdir()
    mount = 'mount -t hugetlbfs hugetlbfs /dev/hugepages && mount -t mqueue mqueue /dev/mqueue && exec "$@"'
    start = "import pathlib, sys; from worker.nodes.libvirt.private_daemon import launch_daemon as launch"
    start += "; launch(pathlib.Path(sys.argv[1]))"
    command = ["unshare", "--mount", "sh", "-c", mount, "sh", sys.executable, "-c", start, hypervisor_directory]
    try:
        subprocess.run(command, check=True)
    finally:
        for path in new:
            path.rmdir()
    assert confinement.find_saved_confinement(hypervisor_directory).namespaces


def list_macs_with_rules():
    """Return the MACs of NICs that have rules for neighbor advertisements."""
    command = ["nft", "list", "map", *neighbors.NFT_TABLE.split(), "cards"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"[0-9a-f:]{17}", listed))


@pytest.mark.guest
def test_stop_ends_guests_of_dead_daemon(hypervisor_directory):
    network = claim_network()
    node = start_node(hypervisor_directory, network)
    machine = Machine(str(uuid.uuid4()), "m", 1, 64, ())
    node.define(machine)
    node.start(machine.id)
    guest = read_pid(hypervisor_directory / "run" / "qemu" / "m.pid")
    os.kill(read_pid(hypervisor_directory / "run" / "libvirtd.pid"), signal.SIGKILL)
    private_daemon.stop(hypervisor_directory)
    assert not is_alive(guest)
    assert network.bridge not in list_interfaces()


def start_node(directory, network):
    uri = private_daemon.start(directory, network)
    return LibvirtNode(NodeSpec("node", "node", "libvirt", uri), directory)


def list_interfaces():
    """Return the interfaces of this network namespace."""
    return {name for _, name in socket.if_nameindex()}


def read_pid(file: Path) -> int:
    return int(file.read_text())


def is_alive(number: int) -> bool:
    return Path(f"/proc/{number}").exists()
