"""What the contract tests of all drivers share: a node with a guest that boots once, and helpers."""

import itertools
import json
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import libvirt

from worker.images.disk import ROOT_OFFSET
from worker.nodes.base import (
    AgentUnavailable,
    Disk,
    Endpoint,
    GiB,
    Image,
    Machine,
    Nic,
    NodeDriver,
    Power,
    Seed,
    make_overlay_name,
)

MiB = 1024**2
POOL = "contract"
POLL_INTERVAL_SECONDS = 0.1
numbers = itertools.count(1)


class SimulatedGuestState:
    """A simulated guest boots in half a second, so there is nothing to save."""

    def __init__(self, node: NodeDriver, machine: Machine):
        self.node, self.machine = node, machine

    def restore(self):
        self.node.start(self.machine.id)

    def read_file(self, path: str) -> str | None:
        """Return a file of the machine, which is off."""
        self.node.start(self.machine.id)
        wait_for_agent(self.node, self.machine.id)
        text = read_file(self.node, self.machine, path)
        self.node.power_off(self.machine.id)
        return text


class LibvirtGuestState:
    """The memory and the disk of a running guest, saved in files. It continues from them in a fraction of a second, as
    often as a test needs it."""

    def __init__(self, node: NodeDriver, machine: Machine, folder: Path):
        self.node, self.machine, self.folder = node, machine, folder
        [self.disk] = machine.disks
        self.folder.mkdir(exist_ok=True)
        self.memory_path, self.saved_disk_path = folder / "memory", folder / "disk"
        with self.connect() as connection:
            self.disk_path = (
                connection.storagePoolLookupByName(self.disk.pool).storageVolLookupByName(self.disk.name).path()
            )
            connection.lookupByUUIDString(machine.id).save(str(self.memory_path))
        shutil.copyfile(self.disk_path, self.saved_disk_path)

    def connect(self):
        return closing(libvirt.open(self.node.spec.uri))

    def restore(self):
        """Undo everything since the state was saved: memory, disk, definition, snapshots and overlay."""
        self.node.delete(self.machine.id)
        self.node.delete_disk(self.disk.pool, make_overlay_name(self.disk.name))
        shutil.copyfile(self.saved_disk_path, self.disk_path)
        self.node.define(self.machine)
        with self.connect() as connection:
            connection.restore(str(self.memory_path))

    def read_file(self, path: str) -> str | None:
        """Return a file of the machine, which is off, as it stands in the disk or in the disk's overlay."""
        overlay = Path(self.disk_path).with_name(make_overlay_name(self.disk.name))
        content, commands, root = (self.folder / name for name in ("content", "commands", "root"))
        disk = overlay if overlay.exists() else self.disk_path
        partition = f"driver=raw,offset={ROOT_OFFSET},file.driver=qcow2,file.file.filename={disk}"
        run_program("qemu-img", "convert", "-O", "raw", "--image-opts", partition, root)
        content.unlink(missing_ok=True)
        commands.write_text(f"journal_run\ndump {path} {content}\n")
        run_program("debugfs", "-w", "-f", commands, root)
        root.unlink()
        return content.read_text() if content.exists() else None


@dataclass
class DriverLab:
    """A node of one driver, and what its tests need beside the contract."""

    node: NodeDriver
    open_node: Callable[[], NodeDriver]
    """The same node once more, as another process would open it: what it sees was kept by the node."""
    image: Image
    network: str
    guest_addresses: dict[str, int]
    """Address → length of its network's prefix."""
    pool_path: str
    can_sign_in: Callable[[NodeDriver, str, str, str], bool]
    """Whether a password signs in on the guest: (node, machine's id, user, password)."""
    is_vnc_password: Callable[[NodeDriver, str, Endpoint, str], bool]
    """Whether a password opens the screen: (node, machine's id, where it is, password)."""
    read_kernel_files: Callable[[], tuple[bytes, bytes]]
    """The kernel and the initial file system of the image."""
    save_guest: Callable[[NodeDriver, Machine], SimulatedGuestState | LibvirtGuestState]
    break_checkpoints: Callable[[NodeDriver, Machine], None]
    """Turn a running machine off so that its checkpoints can no longer be used."""
    read_sandbox_cidr: Callable[[NodeDriver], str]
    """The addresses of the active network of micro VMs."""
    guest_state: SimulatedGuestState | LibvirtGuestState | None = field(default=None, init=False)

    def prepare(self):
        self.node.prepare_pool(POOL, self.pool_path)
        self.node.put_image(POOL, self.image)

    def get_running_guest(self) -> Machine:
        """Return the shared guest, running and with its agent answering, whatever the last test did to it. The first
        call boots it."""
        if self.guest_state is None:
            machine = self.define_guest()
            self.node.start(machine.id)
            wait_for_agent(self.node, machine.id)
            self.guest_state = self.save_guest(self.node, machine)
        machine = self.guest_state.machine
        if self.node.power(machine.id) is Power.paused:
            self.node.resume(machine.id)
        if not is_agent_answering(self.node, machine.id):
            self.restore_guest()
        return machine

    def pause_guest(self):
        """Suspend the shared guest, if it runs, so that it uses no CPU until the next test that needs it."""
        if self.node.power(self.guest_state.machine.id) is Power.on:
            self.node.suspend(self.guest_state.machine.id)

    def restore_guest(self):
        """Put the shared guest back into the state after its first boot."""
        self.guest_state.restore()
        wait_for_agent(self.node, self.guest_state.machine.id)

    def define_guest(self) -> Machine:
        number = next(numbers)
        nic = replace(build_nic(self), addresses=tuple(self.guest_addresses))
        addresses = [f"{address}/{length}" for address, length in self.guest_addresses.items()]
        seed = Seed(
            meta_data=json.dumps({"instance-id": "first", "local-hostname": "guest"}),
            user_data='#cloud-config\n{"users": [{"name": "root", "lock_passwd": true}]}',
            network_config=json.dumps(
                {
                    "version": 2,
                    "ethernets": {"nic0": {"match": {"macaddress": nic.mac}, "addresses": addresses}},
                }
            ),
        )
        disk = Disk(POOL, f"disk-{number}", GiB)
        self.node.create_disk(disk, self.image)
        media = self.node.create_seed(POOL, f"seed-{number}", seed)
        machine = Machine(str(uuid.uuid4()), f"contract-{number}", 1, 256, (disk,), (nic,), {"seed": media})
        self.node.define(machine)
        return machine


def build_nic(lab):
    return Nic(mac=f"52:54:00:c0:00:{next(numbers):02x}", network=lab.network)


def wait_until(condition, seconds=180):
    """Wait until the condition is true, as long as that takes on a busy machine; return its result."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < end, "what the test waits for did not happen"
        time.sleep(POLL_INTERVAL_SECONDS)
    return result


def is_agent_answering(node, machine_id):
    try:
        node.agent_ping(machine_id)
    except AgentUnavailable:
        return False
    return True


def wait_for_agent(node, machine_id):
    try:
        wait_until(lambda: is_agent_answering(node, machine_id))
    except AssertionError as error:
        for _ in range(2):  # the difference of `cpu_seconds` shows whether the guest hangs
            error.add_note(f"machine: {find_status(node, machine_id)}")
            time.sleep(1)
        try:
            node.agent_ping(machine_id)
        except AgentUnavailable as refusal:
            error.add_note(f"agent: {refusal.detail}")
        raise


def find_status(node, machine_id):
    """Return the machine's row in the list of machines, or None."""
    return next((machine for machine in node.machines() if machine.id == machine_id), None)


def get_agreed_power(node, machine_id):
    """Return the power state that both calls report; a guest may turn itself off between the two."""

    def agreed_power():
        power = node.power(machine_id)
        return power if power is find_status(node, machine_id).power else None

    return wait_until(agreed_power, seconds=10)


def disk_sizes(node):
    return {disk.name: disk.size for disk in node.disks(POOL)}


def read_boot_id(node, machine_id):
    return node.agent_run(machine_id, ["cat", "/proc/sys/kernel/random/boot_id"]).output


def write_file(node, machine, path, text):
    """Write a file inside the guest, so that it is on the disk."""
    assert node.agent_run(machine.id, ["tee", path], stdin=text).exit_code == 0
    assert node.agent_run(machine.id, ["sync"]).exit_code == 0


def read_file(node, machine, path):
    """Return a file inside the guest, or None."""
    result = node.agent_run(machine.id, ["cat", path])
    return result.output if result.exit_code == 0 else None


def run_program(*command) -> str:
    return subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stdout
