"""What every driver promises about machines that migrate to another node (`worker/nodes/base.py`)."""

import contextlib
import uuid
from dataclasses import dataclass, replace

import libvirt
import pytest
from lxml import etree

from tests.nodes.driver_lab import wait_for_agent
from worker.nodes import load_driver
from worker.nodes.base import (
    Disk,
    GiB,
    Image,
    Machine,
    Nic,
    NodeDriver,
    NodeSpec,
    NotOnNode,
    Power,
    Refused,
    Seed,
)
from worker.nodes.libvirt import LibvirtNode

POOL = "moving"


@dataclass
class NodePair:
    source: NodeDriver
    target: NodeDriver
    image: Image


@pytest.fixture(scope="module", params=["simulated", pytest.param("libvirt", marks=pytest.mark.guest)])
def pair(request):
    pair = request.getfixturevalue(f"{request.param}_pair")
    for node in (pair.source, pair.target):
        node.put_image(POOL, pair.image)
    yield pair
    pair.source.close()
    pair.target.close()


@pytest.fixture(scope="module")
def simulated_pair(tmp_path_factory):
    directory = tmp_path_factory.mktemp("pair")
    (directory / "image").write_bytes(b"QFI\xfb" + bytes(60))
    nodes = [load_driver("simulated")(NodeSpec(name, name, "simulated", "simulated://"), directory) for name in "ab"]
    for node in nodes:
        node.prepare_pool(POOL, "/srv/moving")
    return NodePair(*nodes, Image("base.qcow2", directory / "image", 64))


@pytest.fixture(scope="module")
def libvirt_pair(hypervisor_pair, tmp_path_factory, tiny_image):
    directory, nodes = tmp_path_factory.mktemp("pair"), []
    for number, host in enumerate(hypervisor_pair):
        node = load_driver("libvirt")(NodeSpec(f"n{number}", f"n{number}", "libvirt", host.uri), directory)
        node.prepare_pool(POOL, str(host.directory / f"guests{number}"))
        nodes.append(node)
    return NodePair(*nodes, Image("base.qcow2", tiny_image, tiny_image.stat().st_size))


@contextlib.contextmanager
def define_machine(pair):
    """Define a machine on the source, with a disk of the image, a blank one and a medium; the target has what it
    needs."""
    number = uuid.uuid4().hex[:8]
    disks = Disk(POOL, f"{number}-0", GiB), Disk(POOL, f"{number}-1", GiB // 8)
    for node in (pair.source, pair.target):
        node.create_disk(disks[0], pair.image)
        node.create_disk(disks[1])
    seed = pair.source.create_seed(POOL, f"{number}-seed", Seed("instance-id: x\n", "#cloud-config\n", "version: 2\n"))
    pair.source.copy_media(seed, pair.target, seed)
    nic = Nic(f"52:54:00:{number[:2]}:{number[2:4]}:{number[4:6]}", "public")
    machine = Machine(str(uuid.uuid4()), number, 1, 256, disks, (nic,), {"seed": seed}, vnc_password="letmein")
    pair.source.define(machine)
    yield machine
    for node in (pair.source, pair.target):
        node.delete(machine.id)
        for disk in (*disks, seed):
            node.delete_disk(POOL, disk.name)


@pytest.fixture
def machine(pair):
    with define_machine(pair) as machine:
        yield machine


@pytest.fixture(scope="module")
def migrated_machine(pair):
    """A machine that was migrated while it was off, and was started on the target."""
    with define_machine(pair) as machine:
        pair.source.migrate(machine, pair.target)
        pair.target.start(machine.id)
        yield machine


@pytest.fixture
def running_guest(pair, migrated_machine):
    """The machine of a running guest, the node that it is on, and the other node. It boots when the last test has not
    left it running."""
    nodes = pair.source, pair.target
    current_node, other_node = nodes if migrated_machine.id in list_ids(pair.source) else reversed(nodes)
    current_node.start(migrated_machine.id)
    wait_for_agent(current_node, migrated_machine.id)
    system, data = migrated_machine.disks
    other_node.create_disk(system, pair.image)
    other_node.create_disk(data)
    return migrated_machine, current_node, other_node


def list_ids(node):
    return {machine.id for machine in node.machines()}


def test_progress_callback_can_stop_migration(running_guest):
    class Stop(Exception):
        pass

    def stop(done, total):
        raise Stop

    machine, current_node, other_node = running_guest
    with pytest.raises(Stop):
        current_node.migrate(machine, other_node, stop)
    assert (current_node.power(machine.id), machine.id in list_ids(other_node)) == (Power.on, False)
    current_node.agent_ping(machine.id)


def test_running_machine_continues_on_target(running_guest):
    machine, current_node, other_node = running_guest
    current_node.agent_set_password(machine.id, "root", "kept-in-the-guest")
    progress = []
    current_node.migrate(machine, other_node, lambda done, total: progress.append((done, total)))
    assert (machine.id in list_ids(current_node), other_node.power(machine.id)) == (False, Power.on)
    other_node.agent_ping(machine.id)  # at once: it did not boot
    assert all(0 <= done <= total for done, total in progress)
    other_node.power_off(machine.id)
    other_node.start(machine.id)  # the definition is there too
    assert other_node.power(machine.id) is Power.on
    other_node.power_off(machine.id)


def test_machine_that_is_off_stays_off_after_migration(pair, machine):
    pair.source.migrate(machine, pair.target)
    assert (machine.id in list_ids(pair.source), pair.target.power(machine.id)) == (False, Power.off)
    pair.target.start(machine.id)
    assert pair.target.power(machine.id) is Power.on


def test_migrated_machine_keeps_speed_limits_where_target_supports_them(pair, machine):
    """Also on the way back from a node that cannot."""
    limited = replace(machine, nics=(replace(machine.nics[0], inbound_mbps=8, outbound_mbps=4),))
    pair.source.define(limited)
    for source, target in ((pair.source, pair.target), (pair.target, pair.source)):
        source.migrate(limited, target)
        assert read_speed_limits(target, machine) == ((8, 4) if target.capabilities().bandwidth_limits else (0, 0))


def read_speed_limits(node, machine):
    """Return the Mbit/s that the machine receives and sends at most."""
    if not isinstance(node, LibvirtNode):
        [nic] = node.get_nics(machine.id)
        return nic["inbound_mbps"], nic["outbound_mbps"]
    with contextlib.closing(libvirt.open(node.spec.uri)) as connection:
        nic = etree.fromstring(connection.lookupByUUIDString(machine.id).XMLDesc()).find("devices/interface")
    limits = (nic.find(f"bandwidth/{direction}") for direction in ("inbound", "outbound"))
    return tuple(0 if limit is None else int(limit.get("average")) // 125 for limit in limits)


def test_refused_migration_leaves_machine_unchanged(pair, machine):
    pair.source.start(machine.id)
    pair.target.delete_disk(POOL, machine.disks[1].name)
    with pytest.raises((Refused, NotOnNode)):
        pair.source.migrate(machine, pair.target)
    assert (pair.source.power(machine.id), machine.id in list_ids(pair.target)) == (Power.on, False)


def test_clean_up_target_deletes_prepared_disks(pair, machine):
    names = [(disk.pool, disk.name) for disk in machine.disks]
    for _ in range(2):
        pair.target.clean_up_target(machine.id, names)
    assert not {disk.name for disk in pair.target.disks(POOL)} & {name for _, name in names}


def test_clean_up_target_keeps_disks_of_migrated_machine(pair, machine):
    names = [(disk.pool, disk.name) for disk in machine.disks]
    pair.source.migrate(machine, pair.target)
    pair.target.clean_up_target(machine.id, names)
    assert {name for _, name in names} <= {disk.name for disk in pair.target.disks(POOL)}


def test_missing_machine_or_media_cannot_migrate(pair, machine):
    unknown = replace(machine, id=str(uuid.uuid4()))
    with pytest.raises(NotOnNode):
        pair.source.migrate(unknown, pair.target)
    with pytest.raises(NotOnNode):
        pair.source.copy_media(Disk(POOL, "nothing", 0), pair.target, Disk(POOL, "nothing", 0))
    assert "nothing" not in {disk.name for disk in pair.target.disks(POOL)}
