"""Labs of both drivers, their guests and machines, and hypervisors that tests share."""

import contextlib
import fcntl
import ipaddress
import json
import os
import shutil
import signal
import struct
import subprocess
import uuid

import libvirt
import pytest

from tests.nodes import vnc_client
from tests.nodes.driver_lab import (
    POOL,
    DriverLab,
    LibvirtGuestState,
    MiB,
    SimulatedGuestState,
    build_nic,
    numbers,
    run_program,
    wait_until,
)
from tests.nodes.filter_port import Port
from tests.support.two_hypervisors import run_hypervisors
from worker.images import packages, tiny
from worker.images.tiny import boot
from worker.nodes import load_driver
from worker.nodes.base import SANDBOX_NETWORK_NAME, Disk, GiB, Image, Machine, NodeSpec, Power
from worker.nodes.libvirt import filters, private_daemon


@pytest.fixture(scope="session", params=["simulated", pytest.param("libvirt", marks=pytest.mark.guest)])
def lab(request):
    """A node of each driver."""
    return request.getfixturevalue(f"{request.param}_lab")


@pytest.fixture(scope="session")
def simulated_lab(tmp_path_factory):
    path = tmp_path_factory.mktemp("simulated")
    file = path / "image"
    file.write_bytes(b"QFI\xfb" + bytes(20) + GiB.to_bytes(8, "big"))
    spec = NodeSpec("node", "node", "simulated", "simulated://?boot_seconds=0.5")
    lab = DriverLab(
        node=load_driver("simulated")(spec, path),
        open_node=lambda: load_driver("simulated")(spec, path),
        image=Image("system.qcow2", file, file.stat().st_size),
        network="default",
        guest_addresses={"10.96.0.9": 24},
        pool_path="/var/lib/pool",
        can_sign_in=lambda node, *caller: node.can_sign_in(*caller),
        is_vnc_password=lambda node, machine_id, _, password: node.is_vnc_password(machine_id, password),
        read_kernel_files=lambda: (b"kernel", b"initrd"),
        save_guest=SimulatedGuestState,
        break_checkpoints=break_simulated_checkpoints,
        read_sandbox_cidr=lambda node: node.find_sandbox_network().cidr,
    )
    lab.prepare()
    yield lab
    lab.node.close()


@pytest.fixture(scope="session")
def libvirt_lab(hypervisor, tiny_image, guest_cache, tmp_path_factory):
    path = tmp_path_factory.mktemp("libvirt")
    spec = NodeSpec("node", "node", "libvirt", hypervisor.uri)
    four, six = (gateway.split("/")[0] for gateway in (hypervisor.network.gateway4, hypervisor.network.gateway6))
    lab = DriverLab(
        node=load_driver("libvirt")(spec, path),
        open_node=lambda: load_driver("libvirt")(spec, path),
        image=Image("system.qcow2", tiny_image, tiny_image.stat().st_size),
        network="public",
        guest_addresses={f"{four}77": 24, f"{six}77": 64},
        pool_path=str(hypervisor.directory / "contract"),
        can_sign_in=is_guest_password,
        is_vnc_password=lambda node, machine_id, screen, password: vnc_client.is_admitted(screen, password),
        read_kernel_files=lambda: read_tiny_kernel(guest_cache, path),
        save_guest=lambda node, machine: LibvirtGuestState(node, machine, hypervisor.directory / "saved"),
        break_checkpoints=lambda node, machine: kill_qemu(hypervisor, node, machine),
        read_sandbox_cidr=read_bridge_cidr,
    )
    lab.prepare()
    yield lab
    lab.node.close()


def break_simulated_checkpoints(node, machine):
    node.power_off(machine.id)
    node.break_checkpoints(machine.id)


def kill_qemu(hypervisor, node, machine):
    """Kill the machine's QEMU, which leaves its bitmaps in an unknown state."""
    os.kill(int((hypervisor.directory / "run" / "qemu" / f"{machine.name}.pid").read_text()), signal.SIGKILL)
    wait_until(lambda: node.power(machine.id) is Power.off)


def read_bridge_cidr(node):
    """Return the addresses of the bridge that libvirt made for the network of micro VMs."""
    with contextlib.closing(libvirt.open(node.spec.uri)) as connection:
        bridge = connection.networkLookupByName(SANDBOX_NETWORK_NAME).bridgeName()
    [device] = json.loads(run_program("ip", "-json", "-4", "address", "show", "dev", bridge))
    [address] = device["addr_info"]
    return str(ipaddress.ip_interface(f"{address['local']}/{address['prefixlen']}").network)


def read_tiny_kernel(cache, folder):
    unpacked = packages.unpack(tiny.IMAGE_PACKAGES, cache=cache, prepare=boot.index_modules, log=lambda *_: None)
    version = boot.find_kernel_version(unpacked)
    return (unpacked / f"boot/vmlinuz-{version}").read_bytes(), boot.build_initrd(
        unpacked, folder, version, boot.strip_signature
    )


def is_guest_password(node, machine_id, user, password):
    """Compare with the hash that the guest keeps, as signing in would."""
    lines = node.agent_run(machine_id, ["cat", "/etc/shadow"]).output.splitlines()
    [password_hash] = [line.split(":")[1] for line in lines if line.startswith(f"{user}:")]
    if not password_hash.startswith("$6$"):
        return False
    salt = password_hash.split("$")[2]
    return run_program("openssl", "passwd", "-6", "-salt", salt, password).strip() == password_hash


@pytest.fixture
def node(lab):
    return lab.node


@pytest.fixture
def new_disk(lab):
    """Return a function that creates disks no other test has, of 64 MiB by default."""
    disks = []

    def create(size=64 * MiB, image=None):
        disks.append(Disk(POOL, f"disk-{next(numbers)}", size))
        lab.node.create_disk(disks[-1], image)
        return disks[-1]

    yield create
    for disk in disks:
        lab.node.delete_disk(disk.pool, disk.name)


@pytest.fixture
def new_machine(lab, new_disk):
    """Return a function that defines machines with a blank disk: they can be powered on, but no guest runs in them."""
    machines = []

    def define(**facts):
        number = next(numbers)
        facts = {"cpu_cores": 1, "memory_mb": 64, "disks": (new_disk(),), "nics": (build_nic(lab),), **facts}
        machines.append(Machine(id=str(uuid.uuid4()), name=f"contract-{number}", **facts))
        lab.node.define(machines[-1])
        return machines[-1]

    yield define
    for machine in machines:
        lab.node.delete(machine.id)


@pytest.fixture(scope="session")
def blank_machine(lab):
    """A shared machine without a guest, for tests that only need its power: turning machines off takes a while."""
    disk = Disk(POOL, f"disk-{next(numbers)}", 64 * MiB)
    lab.node.create_disk(disk)
    machine = Machine(str(uuid.uuid4()), "contract-blank", 1, 64, (disk,), (build_nic(lab),), vnc_password="sesame")
    lab.node.define(machine)
    yield machine
    lab.node.delete(machine.id)
    lab.node.delete_disk(POOL, disk.name)


@pytest.fixture
def guest(lab):
    """The machine of the lab's shared guest, running. What a test writes into it may stay until a test turns it off."""
    yield lab.get_running_guest()
    lab.pause_guest()


@pytest.fixture
def disposable_guest(libvirt_lab):
    """The libvirt lab's guest, running. The test may do anything to it: the next test gets it restored."""
    machine = libvirt_lab.get_running_guest()
    yield machine
    libvirt_lab.node.power_off(machine.id)


@pytest.fixture
def hypervisor_directory(hypervisor, tmp_path_factory):
    """The directory of a hypervisor that one test may do anything to."""
    directory = tmp_path_factory.mktemp("data") / "hypervisor"
    copy_probe_results(hypervisor, directory)
    yield directory
    private_daemon.stop(directory)


@pytest.fixture(scope="session")
def hypervisor_pair(hypervisor, tmp_path_factory):
    """Two hypervisors between which machines can migrate."""
    directory = tmp_path_factory.mktemp("pair")
    for number in (1, 2):
        copy_probe_results(hypervisor, directory / f"host{number}")
    with run_hypervisors(directory) as hypervisors:
        yield hypervisors


def copy_probe_results(hypervisor, directory):
    """Give a new hypervisor what the shared one learned about QEMU and KVM, which takes seconds to probe."""
    directory.mkdir(parents=True)
    shutil.copytree(hypervisor.directory / "cache", directory / "cache")
    shutil.copy(hypervisor.directory / "kvm.json", directory)


@pytest.fixture(scope="module")
def port(hypervisor):
    """A port of the hypervisor's bridge, where a guest would be."""
    cable = os.open("/dev/net/tun", os.O_RDWR)
    name, tap_without_header, set_interface = f"tap{os.getpid()}", 0x0002 | 0x1000, 0x400454CA
    fcntl.ioctl(cable, set_interface, struct.pack("16sH", name.encode(), tap_without_header))
    subprocess.run(["ip", "link", "set", name, "master", hypervisor.network.bridge, "up"], check=True)
    connection = libvirt.open(hypervisor.uri)
    connection.nwfilterDefineXML(filters.build_guard())
    yield Port(connection, name, cable, hypervisor.network.bridge)
    connection.close()
    os.close(cable)
