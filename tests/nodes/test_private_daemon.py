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
from worker.nodes.libvirt import LibvirtNode, confinement, neighbours, private_daemon


def test_what_is_missing_is_named_with_its_package(monkeypatch):
    monkeypatch.setattr(private_daemon.shutil, "which", lambda program, path: None)
    monkeypatch.setattr(private_daemon.os, "geteuid", lambda: 1000)
    lacking = " ".join(private_daemon.list_missing())
    for program, package in private_daemon.REQUIRED_PROGRAMS.items():
        assert f"{program} is missing (package {package})" in lacking
    assert "root" in lacking


def test_it_is_not_started_where_something_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(private_daemon, "list_missing", lambda: ["The program libvirtd is missing."])
    with pytest.raises(private_daemon.NoHypervisor) as refused:
        private_daemon.start(tmp_path)
    assert "libvirtd is missing" in str(refused.value)


def test_a_path_that_no_socket_can_have_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(private_daemon, "list_missing", list)
    with pytest.raises(private_daemon.NoHypervisor) as refused:
        private_daemon.start(tmp_path / ("x" * 100))
    assert "too long" in str(refused.value)


@pytest.fixture
def own_hypervisor(tmp_path_factory):
    """A hypervisor that one test may do anything to."""
    directory = tmp_path_factory.mktemp("own")
    yield directory
    private_daemon.stop(directory)


@pytest.mark.guest
def test_guests_outlive_the_daemon_and_nothing_outlives_a_stop(own_hypervisor):
    network = claim_network()
    node = LibvirtNode(
        NodeSpec("node", "node", "libvirt", private_daemon.start(own_hypervisor, network)), own_hypervisor
    )
    node.prepare_pool("pool", str(own_hypervisor / "pool"))
    machine = Machine(str(uuid.uuid4()), "m", 1, 64, (Disk("pool", "d", 1024**2),))
    node.create_disk(machine.disks[0])
    node.define(machine)
    node.start(machine.id)
    daemon, guest = (
        read_pid(own_hypervisor / "run" / "libvirtd.pid"),
        read_pid(own_hypervisor / "run" / "qemu" / "m.pid"),
    )

    private_daemon.start(own_hypervisor, network)
    assert read_pid(own_hypervisor / "run" / "libvirtd.pid") == daemon

    os.kill(daemon, signal.SIGKILL)
    private_daemon.start(own_hypervisor, network)
    assert [(seen.id, seen.power) for seen in node.machines()] == [(machine.id, Power.on)]
    assert network.bridge in interfaces()

    groups = Path("/sys/fs/cgroup").glob(f"**/{private_daemon.get_host_uuid(own_hypervisor)}")
    private_daemon.stop(own_hypervisor)
    assert not is_alive(guest)
    assert network.bridge not in interfaces()
    assert not list(groups)
    private_daemon.stop(own_hypervisor)

    private_daemon.start(own_hypervisor, network)
    assert [(seen.id, seen.power) for seen in node.machines()] == [(machine.id, Power.off)]
    node.close()


@pytest.mark.guest
def test_a_stop_takes_the_rules_of_its_own_cards_away_and_a_start_brings_them_back(own_hypervisor):
    network = claim_network()
    node = LibvirtNode(
        NodeSpec("node", "node", "libvirt", private_daemon.start(own_hypervisor, network)), own_hypervisor
    )
    nic, anothers = Nic("52:54:00:0a:0c:01", "public", ("fd00::31",)), Nic("52:54:00:0a:0c:02", "public", ("fd00::32",))
    machine = Machine(str(uuid.uuid4()), "m", 1, 64, (), (nic,))
    node.define(machine)
    node.start(machine.id)
    neighbours.allow_advertisements([anothers])
    assert {nic.mac, anothers.mac} <= cards_with_rules()
    private_daemon.stop(own_hypervisor)
    assert cards_with_rules() & {nic.mac, anothers.mac} == {anothers.mac}
    private_daemon.start(own_hypervisor, network)
    assert nic.mac in cards_with_rules()
    node.delete(machine.id)
    assert nic.mac not in cards_with_rules()
    neighbours.delete_rules([anothers.mac])
    node.close()


@pytest.mark.guest
def test_it_starts_confined_where_systemd_has_mounted_file_systems_below_dev(own_hypervisor):
    mount_points = [Path("/dev/hugepages"), Path("/dev/mqueue")]
    new = [path for path in mount_points if not path.exists()]
    for path in new:
        path.mkdir()
    mount = 'mount -t hugetlbfs hugetlbfs /dev/hugepages && mount -t mqueue mqueue /dev/mqueue && exec "$@"'
    start = "import pathlib, sys; from worker.nodes.libvirt.private_daemon import launch_daemon as launch"
    start += "; launch(pathlib.Path(sys.argv[1]))"
    command = ["unshare", "--mount", "sh", "-c", mount, "sh", sys.executable, "-c", start, own_hypervisor]
    try:
        subprocess.run(command, check=True)
    finally:
        for path in new:
            path.rmdir()
    assert confinement.find_saved_confinement(own_hypervisor).namespaces


def cards_with_rules():
    command = ["nft", "list", "map", *neighbours.NFT_TABLE.split(), "cards"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"[0-9a-f:]{17}", listed))


@pytest.mark.guest
def test_a_daemon_that_died_does_not_keep_its_guests_from_being_stopped(own_hypervisor):
    network = claim_network()
    node = LibvirtNode(
        NodeSpec("node", "node", "libvirt", private_daemon.start(own_hypervisor, network)), own_hypervisor
    )
    machine = Machine(str(uuid.uuid4()), "m", 1, 64, ())
    node.define(machine)
    node.start(machine.id)
    guest = read_pid(own_hypervisor / "run" / "qemu" / "m.pid")
    os.kill(read_pid(own_hypervisor / "run" / "libvirtd.pid"), signal.SIGKILL)
    private_daemon.stop(own_hypervisor)
    assert not is_alive(guest)
    assert network.bridge not in interfaces()


def interfaces():
    """Those of this network namespace."""
    return {name for _, name in socket.if_nameindex()}


def read_pid(file: Path) -> int:
    return int(file.read_text())


def is_alive(number: int) -> bool:
    return Path(f"/proc/{number}").exists()
