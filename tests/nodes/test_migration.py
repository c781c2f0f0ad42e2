"""What every driver promises about machines that move to another node (`worker/nodes/base.py`), asked of pairs."""

import time
import uuid
from dataclasses import dataclass, replace

import libvirt
import pytest
from lxml import etree

from tests.support.two_hypervisors import run_hypervisors
from worker.nodes import load_driver
from worker.nodes.base import (
    AgentUnavailable,
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
class Pair:
    here: NodeDriver
    there: NodeDriver
    image: Image


@pytest.fixture(scope="module", params=["simulated", pytest.param("libvirt", marks=pytest.mark.guest)])
def pair(request):
    pair = request.getfixturevalue(f"{request.param}_pair")
    for node in (pair.here, pair.there):
        node.put_image(POOL, pair.image)
    yield pair
    pair.here.close()
    pair.there.close()


@pytest.fixture(scope="module")
def simulated_pair(tmp_path_factory):
    directory = tmp_path_factory.mktemp("pair")
    (directory / "image").write_bytes(b"QFI\xfb" + bytes(60))
    made = [load_driver("simulated")(NodeSpec(name, name, "simulated", "simulated://"), directory) for name in "ab"]
    for node in made:
        node.prepare_pool(POOL, "/srv/moving")
    return Pair(*made, Image("base.qcow2", directory / "image", 64))


@pytest.fixture(scope="module")
def libvirt_pair(tmp_path_factory, tiny_image):
    directory = tmp_path_factory.mktemp("pair")
    with run_hypervisors(directory) as started:
        made = []
        for number, host in enumerate(started):
            node = load_driver("libvirt")(NodeSpec(f"n{number}", f"n{number}", "libvirt", host.uri), directory)
            node.prepare_pool(POOL, str(host.directory / f"guests{number}"))
            made.append(node)
        yield Pair(*made, Image("base.qcow2", tiny_image, tiny_image.stat().st_size))


@pytest.fixture
def machine(pair):
    """A machine at `here` with a disk of the image, a blank one and a medium; what it needs lies at `there` too."""
    number = uuid.uuid4().hex[:8]
    disks = Disk(POOL, f"{number}-0", GiB), Disk(POOL, f"{number}-1", GiB // 8)
    for node in (pair.here, pair.there):
        node.create_disk(disks[0], pair.image)
        node.create_disk(disks[1])
    seed = pair.here.create_seed(POOL, f"{number}-seed", Seed("instance-id: x\n", "#cloud-config\n", "version: 2\n"))
    pair.here.copy_media(seed, pair.there, seed)
    nic = Nic(f"52:54:00:{number[:2]}:{number[2:4]}:{number[4:6]}", "public")
    made = Machine(str(uuid.uuid4()), number, 1, 256, disks, (nic,), {"seed": seed}, vnc_password="letmein")
    pair.here.define(made)
    yield made
    for node in (pair.here, pair.there):
        node.delete(made.id)
        for disk in (*disks, seed):
            node.delete_disk(POOL, disk.name)


def ids(node):
    return {machine.id for machine in node.machines()}


def is_running(node, machine):
    limit = time.monotonic() + 180
    while True:
        try:
            return node.agent_ping(machine.id)
        except AgentUnavailable:
            assert time.monotonic() < limit, "the guest agent never answered"
            time.sleep(0.2)


def test_a_machine_that_runs_goes_on_at_the_other_node(pair, machine):
    pair.here.start(machine.id)
    is_running(pair.here, machine)
    pair.here.agent_set_password(machine.id, "root", "kept-in-the-guest")
    told = []
    pair.here.migrate(machine, pair.there, lambda done, total: told.append((done, total)))
    assert (machine.id in ids(pair.here), pair.there.power(machine.id)) == (False, Power.on)
    pair.there.agent_ping(machine.id)  # at once: it did not boot
    assert all(0 <= done <= total for done, total in told)
    pair.there.power_off(machine.id)
    pair.there.start(machine.id)  # the definition stays
    assert pair.there.power(machine.id) is Power.on


def test_a_machine_that_is_off_stays_off(pair, machine):
    pair.here.migrate(machine, pair.there)
    assert (machine.id in ids(pair.here), pair.there.power(machine.id)) == (False, Power.off)
    pair.there.start(machine.id)
    is_running(pair.there, machine)


def test_it_is_as_fast_as_it_was_where_the_node_can_limit_speeds(pair, machine):
    """Also on the way back from a node that cannot."""
    limited = replace(machine, nics=(replace(machine.nics[0], inbound_mbps=8, outbound_mbps=4),))
    pair.here.define(limited)
    for source, target in ((pair.here, pair.there), (pair.there, pair.here)):
        source.migrate(limited, target)
        assert speeds(target, machine) == ((8, 4) if target.capabilities().bandwidth_limits else (0, 0))


def speeds(node, machine):
    """Mbit/s that the machine is to receive and send at most."""
    if not isinstance(node, LibvirtNode):
        [card] = node.nics_of(machine.id)
        return card["inbound_mbps"], card["outbound_mbps"]
    connection = libvirt.open(node.spec.uri)
    card = etree.fromstring(connection.lookupByUUIDString(machine.id).XMLDesc()).find("devices/interface")
    connection.close()
    limits = (card.find(f"bandwidth/{way}") for way in ("inbound", "outbound"))
    return tuple(0 if limit is None else int(limit.get("average")) // 125 for limit in limits)


def test_a_move_that_is_refused_leaves_it_as_it_was(pair, machine):
    pair.here.start(machine.id)
    pair.there.delete_disk(POOL, machine.disks[1].name)
    with pytest.raises((Refused, NotOnNode)):
        pair.here.migrate(machine, pair.there)
    assert (pair.here.power(machine.id), machine.id in ids(pair.there)) == (Power.on, False)


def test_who_wants_to_know_may_stop_it(pair, machine):
    class Stop(Exception):
        pass

    def stop(done, total):
        raise Stop

    pair.here.start(machine.id)
    is_running(pair.here, machine)
    with pytest.raises(Stop):
        pair.here.migrate(machine, pair.there, stop)
    assert (pair.here.power(machine.id), machine.id in ids(pair.there)) == (Power.on, False)
    pair.here.agent_ping(machine.id)


def test_what_was_made_for_an_arrival_is_dropped(pair, machine):
    names = [(disk.pool, disk.name) for disk in machine.disks]
    left = lambda: {disk.name for disk in pair.there.disks(POOL)} & {name for _, name in names}  # noqa: E731
    pair.there.clean_up_target(machine.id, names)
    pair.there.clean_up_target(machine.id, names)
    assert left() == set()


def test_the_disks_of_a_machine_that_came_are_not_dropped(pair, machine):
    names = [(disk.pool, disk.name) for disk in machine.disks]
    pair.here.migrate(machine, pair.there)
    pair.there.clean_up_target(machine.id, names)
    assert {name for _, name in names} <= {disk.name for disk in pair.there.disks(POOL)}


def test_what_is_not_there_cannot_move(pair, machine):
    stranger = replace(machine, id=str(uuid.uuid4()))
    with pytest.raises(NotOnNode):
        pair.here.migrate(stranger, pair.there)
    with pytest.raises(NotOnNode):
        pair.here.copy_media(Disk(POOL, "nothing", 0), pair.there, Disk(POOL, "nothing", 0))
    assert "nothing" not in {disk.name for disk in pair.there.disks(POOL)}
