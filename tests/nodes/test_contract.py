"""What every driver promises (`worker/nodes/base.py`), asked of each of them in the same words."""

import itertools
import json
import queue
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest

from tests.nodes import vnc_client
from worker.nodes import load_driver
from worker.nodes.base import (
    AgentUnavailable,
    Disk,
    Endpoint,
    FirewallRule,
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

MiB = 1024**2
POOL = "contract"
numbers = itertools.count(1)


@dataclass(frozen=True)
class DriverLab:
    """A node of one driver, and what its tests need beside the contract."""

    node: NodeDriver
    reach: Callable[[], NodeDriver]
    """The same node once more, as another process would reach it: what it sees was kept by the node."""
    image: Image
    network: str
    pool_path: str
    can_sign_in: Callable[[NodeDriver, str, str, str], bool]
    """Whether a password signs in on the guest: (node, machine's id, user, password)."""
    admits: Callable[[NodeDriver, str, Endpoint, str], bool]
    """Whether a password opens the screen: (node, machine's id, where it is, password)."""


@pytest.fixture(scope="module", params=["simulated", pytest.param("libvirt", marks=pytest.mark.guest)])
def lab(request):
    lab = request.getfixturevalue(f"{request.param}_lab")
    lab.node.prepare_pool(POOL, lab.pool_path)
    lab.node.put_image(POOL, lab.image)
    yield lab
    lab.node.close()


@pytest.fixture(scope="module")
def simulated_lab(tmp_path_factory):
    path = tmp_path_factory.mktemp("simulated")
    file = path / "image"
    file.write_bytes(b"QFI\xfb" + bytes(20) + GiB.to_bytes(8, "big"))
    spec = NodeSpec("node", "node", "simulated", "simulated://?boot_seconds=0.5")
    return DriverLab(
        node=load_driver("simulated")(spec, path),
        reach=lambda: load_driver("simulated")(spec, path),
        image=Image("system.qcow2", file, file.stat().st_size),
        network="default",
        pool_path="/var/lib/pool",
        can_sign_in=lambda node, *who: node.can_sign_in(*who),
        admits=lambda node, machine_id, _, password: node.is_vnc_password(machine_id, password),
    )


@pytest.fixture(scope="module")
def libvirt_lab(hypervisor, tiny_image, tmp_path_factory):
    path = tmp_path_factory.mktemp("libvirt")
    spec = NodeSpec("node", "node", "libvirt", hypervisor.uri)
    return DriverLab(
        node=load_driver("libvirt")(spec, path),
        reach=lambda: load_driver("libvirt")(spec, path),
        image=Image("system.qcow2", tiny_image, tiny_image.stat().st_size),
        network="public",
        pool_path=str(hypervisor.directory / "contract"),
        can_sign_in=password_in_shadow,
        admits=lambda node, machine_id, screen, password: vnc_client.is_admitted(screen, password),
    )


def password_in_shadow(node, machine_id, user, password):
    """Compares with the hash that the guest keeps, as signing in would."""
    lines = node.agent_run(machine_id, ["cat", "/etc/shadow"]).output.splitlines()
    [kept] = [line.split(":")[1] for line in lines if line.startswith(f"{user}:")]
    if not kept.startswith("$6$"):
        return False
    hashing = ["openssl", "passwd", "-6", "-salt", kept.split("$")[2], password]
    return subprocess.run(hashing, check=True, capture_output=True, text=True).stdout.strip() == kept


@pytest.fixture
def node(lab):
    return lab.node


@pytest.fixture
def new_disk(lab):
    """Makes disks that no other test has, of 64 MiB when nothing else is said."""
    made = []

    def new(size=64 * MiB, image=None):
        made.append(Disk(POOL, f"disk-{next(numbers)}", size))
        lab.node.create_disk(made[-1], image)
        return made[-1]

    yield new
    for disk in made:
        lab.node.delete_disk(disk.pool, disk.name)


@pytest.fixture
def new_machine(lab, new_disk):
    """Defines machines that have a blank disk: they can be powered on, but no guest runs in them."""
    made = []

    def new(**facts):
        number = next(numbers)
        facts = {"cpu_cores": 1, "memory_mb": 64, "disks": (new_disk(),), "nics": (build_nic(lab),), **facts}
        made.append(Machine(id=str(uuid.uuid4()), name=f"contract-{number}", **facts))
        lab.node.define(made[-1])
        return made[-1]

    yield new
    for machine in made:
        lab.node.delete(machine.id)


@pytest.fixture(scope="module")
def blank(lab):
    """One machine without a guest, for tests that only need its power; turning machines off takes a while."""
    disk = Disk(POOL, f"disk-{next(numbers)}", 64 * MiB)
    lab.node.create_disk(disk)
    machine = Machine(str(uuid.uuid4()), "contract-blank", 1, 64, (disk,), (build_nic(lab),), vnc_password="sesame")
    lab.node.define(machine)
    yield machine
    lab.node.delete(machine.id)
    lab.node.delete_disk(POOL, disk.name)


@pytest.fixture(scope="module")
def booted(lab):
    """One machine with a guest in it, made from the image; it takes a while, so the tests share it."""
    number = next(numbers)
    nic = replace(build_nic(lab), addresses=("10.96.0.9",))
    ethernet = {"match": {"macaddress": nic.mac}, "addresses": ["10.96.0.9/24"]}
    seed = Seed(
        meta_data=json.dumps({"instance-id": "first", "local-hostname": "guest"}),
        user_data='#cloud-config\n{"users": [{"name": "root", "lock_passwd": true}]}',
        network_config=json.dumps({"version": 2, "ethernets": {"nic0": ethernet}}),
    )
    disk = Disk(POOL, f"disk-{number}", GiB)
    lab.node.create_disk(disk, lab.image)
    medium = lab.node.create_seed(POOL, f"seed-{number}", seed)
    machine = Machine(str(uuid.uuid4()), f"contract-{number}", 1, 256, (disk,), (nic,), {"seed": medium})
    lab.node.define(machine)
    yield machine
    lab.node.delete(machine.id)
    lab.node.delete_disk(POOL, disk.name)
    lab.node.delete_disk(POOL, medium.name)


@pytest.fixture
def guest(booted, node):
    """The shared machine, running and with its agent answering, whatever the last test did to it."""
    node.start(booted.id)
    wait_until(lambda: agent_answers(node, booted.id))
    return booted


def build_nic(lab):
    return Nic(mac=f"52:54:00:c0:00:{next(numbers):02x}", network=lab.network)


def wait_until(condition, seconds=180):
    """Waits for it, as long as it takes on a busy machine."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < end, "what the test waits for did not happen"
        time.sleep(0.2)
    return result


def agent_answers(node, machine_id):
    try:
        node.agent_ping(machine_id)
    except AgentUnavailable:
        return False
    return True


def machine_status(node, machine_id):
    return next((machine for machine in node.machines() if machine.id == machine_id), None)


def assert_same_power(node, machine_id):
    """What both ways of asking say; a guest may turn itself off between the two."""

    def agreed():
        power = node.power(machine_id)
        return power if power is machine_status(node, machine_id).power else None

    return wait_until(agreed, seconds=10)


def disk_sizes(node):
    return {disk.name: disk.size for disk in node.disks(POOL)}


def boot_id(node, machine_id):
    return node.agent_run(machine_id, ["cat", "/proc/sys/kernel/random/boot_id"]).output


# --- the node itself


def test_a_node_says_what_it_is_and_leaves_nothing_behind(node):
    node.ping()
    before = {machine.id for machine in node.machines()}, disk_sizes(node)
    found = node.capabilities()
    assert found.version
    assert found.cpu_cores > 0
    assert found.memory > GiB / 4
    assert found.acceleration_note
    [pool] = [pool for pool in found.pools if pool.name == POOL]
    assert 0 < pool.free <= pool.capacity
    assert ({machine.id for machine in node.machines()}, disk_sizes(node)) == before


def test_a_closed_node_connects_anew(lab, new_disk):
    disk = new_disk()
    other = lab.reach()
    other.close()
    other.ping()
    assert disk_sizes(other)[disk.name] == disk.size
    other.close()
    other.close()


# --- pools, images, disks


def test_preparing_a_pool_again_keeps_what_is_in_it(lab, new_disk):
    disk = new_disk()
    pool = lab.node.prepare_pool(POOL, lab.pool_path)
    assert (pool.name, pool.path) == (POOL, lab.pool_path)
    assert 0 < pool.free <= pool.capacity
    assert disk in lab.node.disks(POOL)


def test_several_processes_may_prepare_a_pool_at_once(lab):
    """As workers do that are told at the same time of a node that was added."""
    several = [lab.reach() for _ in range(4)]
    for each in several:
        each.ping()
    for name in ("first", "second", "third"):
        with ThreadPoolExecutor(len(several)) as hands:
            found = list(hands.map(lambda node: node.prepare_pool(name, f"{lab.pool_path}-{name}"), several))  # noqa: B023
        assert all(pool.capacity > 0 for pool in found)
    for each in several:
        each.close()


def test_an_image_is_put_once_and_listed_with_the_size_a_guest_sees(lab):
    assert lab.node.has_image(POOL, lab.image)
    assert disk_sizes(lab.node)[lab.image.name] == virtual_size(lab.image.path)
    moved = []
    lab.node.put_image(POOL, lab.image, lambda *progress: moved.append(progress))
    assert moved == []


def test_an_image_counts_only_when_it_is_complete(lab):
    image = replace(lab.image, name="cut-off.qcow2")

    def cut(done, total):
        assert 0 <= done <= total == image.size
        assert not lab.node.has_image(POOL, image)
        raise ConnectionError("the cable is out")

    with pytest.raises(ConnectionError):
        lab.node.put_image(POOL, image, cut)
    assert not lab.node.has_image(POOL, image)
    with pytest.raises(NotOnNode):
        lab.node.create_disk(Disk(POOL, "of-half-an-image", 2 * GiB), image)
    assert "of-half-an-image" not in disk_sizes(lab.node)

    moved = []
    lab.node.put_image(POOL, image, lambda *progress: moved.append(progress))
    assert lab.node.has_image(POOL, image)
    assert moved == sorted(moved)
    assert moved[-1] == (image.size, image.size)

    lab.node.delete_image(POOL, image.name)
    lab.node.delete_image(POOL, image.name)
    assert not lab.node.has_image(POOL, image)
    assert image.name not in disk_sizes(lab.node)


def test_a_disk_is_blank_or_a_child_of_an_image(lab, new_disk):
    blank, child = new_disk(), new_disk(2 * GiB, lab.image)
    assert {blank, child} <= set(lab.node.disks(POOL))
    assert {blank, child} <= set(lab.reach().disks(POOL))


def test_a_disk_made_again_is_replaced(lab, new_disk):
    disk = new_disk()
    again = replace(disk, size=2 * GiB)
    lab.node.create_disk(again, lab.image)
    assert disk_sizes(lab.node)[disk.name] == again.size
    lab.node.create_disk(disk)
    assert disk_sizes(lab.node)[disk.name] == disk.size


def test_a_disk_of_an_image_that_is_not_there_is_not_made(lab):
    with pytest.raises(NotOnNode):
        lab.node.create_disk(Disk(POOL, "orphan", GiB), replace(lab.image, name="never-put.qcow2"))
    assert "orphan" not in disk_sizes(lab.node)


def test_a_disk_that_no_node_has_room_for_is_not_made(node):
    with pytest.raises(Refused):
        node.create_disk(Disk(POOL, "huge", 2**62))
    assert "huge" not in disk_sizes(node)


def test_a_pool_that_was_never_prepared_is_missing(lab):
    for call in (
        lambda: lab.node.disks("nowhere"),
        lambda: lab.node.has_image("nowhere", lab.image),
        lambda: lab.node.put_image("nowhere", lab.image),
        lambda: lab.node.create_disk(Disk("nowhere", "lost", GiB)),
    ):
        with pytest.raises(NotOnNode):
            call()


def test_a_disk_grows_and_never_shrinks(node, new_disk):
    disk = new_disk()
    for asked in (128 * MiB, 128 * MiB, 64 * MiB):
        node.grow_disk(replace(disk, size=asked))
        assert disk_sizes(node)[disk.name] == 128 * MiB
    with pytest.raises(NotOnNode):
        node.grow_disk(Disk(POOL, "never-made", GiB))
    with pytest.raises(NotOnNode):
        node.grow_disk(replace(disk, size=GiB), str(uuid.uuid4()))
    assert disk_sizes(node)[disk.name] == 128 * MiB
    assert "never-made" not in disk_sizes(node)


def test_a_disk_is_deleted_once_and_for_all(node, new_disk):
    disk = new_disk()
    node.delete_disk(POOL, disk.name)
    node.delete_disk(POOL, disk.name)
    assert disk.name not in disk_sizes(node)


def test_a_seed_is_a_disk_that_can_be_replaced(node):
    seed = Seed('{"instance-id": "a"}', "#cloud-config\n{}", "{}")
    first = node.create_seed(POOL, "a-seed", seed)
    assert first in node.disks(POOL)
    longer = node.create_seed(POOL, "a-seed", replace(seed, user_data="#cloud-config\n" + " " * MiB + "{}"))
    assert longer.size > first.size
    assert longer in node.disks(POOL)
    assert first not in node.disks(POOL)
    node.delete_disk(POOL, "a-seed")
    assert "a-seed" not in disk_sizes(node)


# --- machines


def test_a_definition_survives_and_can_be_replaced(lab, new_machine):
    machine = new_machine()
    for node in (lab.node, lab.reach()):
        found = machine_status(node, machine.id)
        assert (found.name, found.power) == (machine.name, Power.off)
        assert not any(found.received.values())
    lab.node.define(machine)
    lab.node.define(replace(machine, name=f"{machine.name}-renamed", memory_mb=96))
    assert machine_status(lab.reach(), machine.id).name == f"{machine.name}-renamed"


def test_a_definition_that_cannot_work_leaves_the_earlier_one(node, new_machine):
    machine = new_machine()
    for impossible in (machine, replace(machine, id=str(uuid.uuid4()))):
        with pytest.raises(Refused):
            node.define(replace(impossible, name="impossible", cpu_cores=0))
        with pytest.raises(NotOnNode):
            node.define(replace(impossible, name="impossible", disks=(Disk(POOL, "never-made", GiB),)))
    assert machine_status(node, machine.id).name == machine.name
    assert "impossible" not in [machine.name for machine in node.machines()]


def test_starting_and_powering_off_again_is_harmless(lab, blank):
    for _ in range(2):
        lab.node.start(blank.id)
        assert assert_same_power(lab.reach(), blank.id) == Power.on
    for _ in range(2):
        lab.node.power_off(blank.id)
        assert assert_same_power(lab.reach(), blank.id) == Power.off
    lab.node.shutdown(blank.id)
    assert not any(machine_status(lab.node, blank.id).received.values())


def test_a_machine_without_its_disk_stays_off(node, new_machine):
    machine = new_machine()
    node.delete_disk(POOL, machine.disks[0].name)
    with pytest.raises((NotOnNode, Refused)):
        node.start(machine.id)
    assert assert_same_power(node, machine.id) == Power.off


def test_a_suspended_machine_goes_on(node, blank):
    node.start(blank.id)
    for _ in range(2):
        node.suspend(blank.id)
        assert assert_same_power(node, blank.id) == Power.paused
    node.start(blank.id)
    for _ in range(2):
        node.resume(blank.id)
        assert assert_same_power(node, blank.id) == Power.on
    node.suspend(blank.id)
    node.power_off(blank.id)
    assert assert_same_power(node, blank.id) == Power.off


def test_a_running_machine_keeps_its_definition_until_the_next_start(lab, new_machine):
    machine = new_machine(vnc_password="sesame")
    lab.node.start(machine.id)
    other = replace(machine, nics=(build_nic(lab),), vnc=False)
    lab.node.define(other)
    assert list(machine_status(lab.node, machine.id).received) == [machine.nics[0].mac]
    lab.node.console(machine.id, "newcomer")
    lab.node.power_off(machine.id)
    lab.node.start(machine.id)
    assert list(machine_status(lab.node, machine.id).received) == [other.nics[0].mac]
    with pytest.raises(Refused):
        lab.node.console(machine.id, "newcomer")


def test_the_cards_of_a_machine_change_whether_it_runs_or_not(lab, new_machine):
    machine = new_machine()
    firewall = (
        FirewallRule("in", 4, "tcp", (80, 443), "10.0.0.0/8"),
        FirewallRule("in", 6, "icmp"),
        FirewallRule("out", 4),
    )
    nic = replace(machine.nics[0], addresses=("10.96.0.20", "fd96::20"), prefixes=("fd97::/64",), allowed=firewall)
    for _ in range(2):
        lab.node.update_nics(machine.id, (nic,))
        lab.node.update_nics(machine.id, (replace(nic, inbound_mbps=10, outbound_mbps=5, mail=False), build_nic(lab)))
        lab.node.update_nics(machine.id, (replace(nic, allowed=(), connected=False),))
        lab.node.update_nics(machine.id, (replace(nic, allowed=None),))
        lab.node.start(machine.id)
        assert list(machine_status(lab.node, machine.id).received) == [nic.mac]
    lab.node.update_nics(machine.id, ())
    with pytest.raises(NotOnNode):
        lab.node.update_nics(str(uuid.uuid4()), (nic,))


def test_a_deleted_machine_is_gone_and_its_disks_stay(node, new_machine):
    machine = new_machine()
    node.start(machine.id)
    node.delete(machine.id)
    assert machine_status(node, machine.id) is None
    assert machine.disks[0] in node.disks(POOL)
    node.delete(machine.id)


def test_what_is_not_there_is_missing(node):
    nobody = str(uuid.uuid4())
    for call in (node.start, node.shutdown, node.power_off, node.restart, node.reset, node.suspend, node.resume):
        with pytest.raises(NotOnNode):
            call(nobody)
    for call in (node.agent_ping, node.agent_addresses):
        with pytest.raises(NotOnNode):
            call(nobody)
    with pytest.raises(NotOnNode):
        node.console(nobody, "newcomer")
    node.delete(nobody)


def test_a_machine_that_is_off_has_no_screen_and_is_not_restarted(node, new_machine):
    machine = new_machine(vnc_password="sesame")
    with pytest.raises(Refused):
        node.restart(machine.id)
    with pytest.raises(Refused):
        node.console(machine.id, "newcomer")
    assert assert_same_power(node, machine.id) == Power.off


def test_a_machine_without_a_password_has_no_screen(node, new_machine):
    machine = new_machine(vnc_password="")
    node.start(machine.id)
    with pytest.raises(Refused):
        node.console(machine.id, "newcomer")


def test_the_screen_is_where_the_node_says(node, blank):
    node.start(blank.id)
    screen = node.console(blank.id, "newcomer")
    assert (screen.password, screen.via) == ("newcomer", None)
    with socket.create_connection((screen.host, screen.port), timeout=10) as connection:
        assert connection.recv(8) == b"RFB 003."


def test_the_screen_admits_who_knows_the_last_password_also_when_suspended(lab, node, new_machine):
    machine = new_machine(vnc_password="sesame")
    node.start(machine.id)
    admitted = lambda screen, *words: [w for w in words if lab.admits(node, machine.id, screen, w)]  # noqa: E731
    screen = node.console(machine.id, "first&<'")
    assert admitted(screen, "sesame", "first&<'", "other", "") == ["first&<'"]
    node.suspend(machine.id)
    screen = lab.reach().console(machine.id, "second")
    assert admitted(screen, "sesame", "first&<'", "second") == ["second"]
    assert admitted(lab.reach().console(machine.id, "second"), "second") == ["second"]


def test_a_machine_powered_on_anew_has_forgotten_the_password(lab, node, new_machine):
    machine = new_machine(vnc_password="sesame")
    node.start(machine.id)
    node.console(machine.id, "newcomer")
    node.reset(machine.id)
    screen = node.console(machine.id, "newcomer")
    assert lab.admits(node, machine.id, screen, "newcomer")
    node.power_off(machine.id)
    node.start(machine.id)
    assert not lab.admits(node, machine.id, screen, "newcomer")


def test_a_machine_without_a_guest_has_no_agent_and_ignores_what_it_is_asked(node, blank, new_machine):
    node.start(blank.id)
    for machine in (blank, new_machine()):
        with pytest.raises(AgentUnavailable):
            node.agent_ping(machine.id)
    node.shutdown(blank.id)
    assert assert_same_power(node, blank.id) == Power.on


def test_a_reset_machine_boots_anew(node, blank):
    """It reads the disk to boot from once more, which is all that it does."""
    node.start(blank.id)
    read = wait_until(lambda: machine_status(node, blank.id).disk_read)
    node.reset(blank.id)
    wait_until(lambda: machine_status(node, blank.id).disk_read > read)
    assert assert_same_power(node, blank.id) == Power.on


def test_watch_events_reports_changes_of_every_client(lab, blank, new_machine):
    heard, stop, removed = queue.SimpleQueue(), threading.Event(), new_machine()
    watched = lab.reach()
    watcher = threading.Thread(target=watched.watch_events, args=(lambda *event: heard.put(event), stop.is_set))
    watcher.start()

    def listening():
        lab.node.suspend(blank.id)
        lab.node.resume(blank.id)
        return not heard.empty()

    def hears(*expected):
        """Events may repeat, and those before the watcher was ready are lost."""
        while heard.get(timeout=10) != expected:
            pass

    try:
        lab.node.start(blank.id)
        wait_until(listening)
        lab.node.power_off(blank.id)
        hears(blank.id, Power.off)
        lab.node.start(blank.id)
        hears(blank.id, Power.on)
        lab.node.suspend(blank.id)
        hears(blank.id, Power.paused)
        lab.node.delete(removed.id)
        hears(removed.id, None)
    finally:
        stop.set()
        watcher.join(timeout=10)
    assert not watcher.is_alive()
    watched.close()


def test_several_threads_may_call_at_once(lab):
    def life(number):
        disk = Disk(POOL, f"contract-thread-{number}", 64 * MiB)
        machine = Machine(str(uuid.uuid4()), f"contract-thread-{number}", 1, 64, (disk,))
        for _ in range(3):
            lab.node.create_disk(disk)
            lab.node.define(machine)
            assert machine_status(lab.node, machine.id).power == Power.off
            assert disk_sizes(lab.node)[disk.name] == disk.size
            lab.node.delete(machine.id)
            lab.node.delete_disk(POOL, disk.name)
        return machine.id

    with ThreadPoolExecutor(6) as threads:
        lives = list(threads.map(life, range(6)))
    assert not {machine.id for machine in lab.node.machines()} & set(lives)
    assert not [name for name in disk_sizes(lab.node) if name.startswith("contract-thread-")]


# --- inside a guest


def test_a_guest_has_what_its_seed_says(node, guest):
    assert node.agent_run(guest.id, ["hostname"]).output == "guest\n"
    nic = guest.nics[0]
    assert "10.96.0.9" in node.agent_addresses(guest.id)[nic.mac]
    assert "127.0.0.1" not in itertools.chain.from_iterable(node.agent_addresses(guest.id).values())


def test_a_program_runs_inside_the_guest(node, guest):
    assert node.agent_run(guest.id, ["echo", "a  b", "ü"]).output == "a  b ü\n"
    assert node.agent_run(guest.id, ["cat"], stdin="line\nline ü\n").output == "line\nline ü\n"
    assert node.agent_run(guest.id, ["true"]).exit_code == 0
    assert node.agent_run(guest.id, ["false"]).exit_code == 1
    assert node.agent_run(guest.id, ["cat", "/no/such/file"]).exit_code == 1
    with pytest.raises(Refused):
        node.agent_run(guest.id, ["no-such-program"])
    with pytest.raises(AgentUnavailable):
        node.agent_run(guest.id, ["sleep", "3"], deadline=0.5)


def test_a_password_signs_in_once_it_is_set(lab, guest):
    assert not lab.can_sign_in(lab.node, guest.id, "root", "correct horse")
    lab.node.agent_set_password(guest.id, "root", "correct horse")
    assert lab.can_sign_in(lab.node, guest.id, "root", "correct horse")
    assert not lab.can_sign_in(lab.node, guest.id, "root", "wrong horse")


def test_a_running_guest_sees_its_disk_grow(node, guest):
    disk = guest.disks[0]
    size = disk_sizes(node)[disk.name] + 64 * MiB
    for asked in (size, size, disk.size):
        node.grow_disk(replace(disk, size=asked), guest.id)
        assert disk_sizes(node)[disk.name] == size
        assert int(node.agent_run(guest.id, ["cat", "/sys/class/block/vda/size"]).output) * 512 == size


def test_a_running_guest_sees_its_cable_pulled_and_put_in(node, guest, booted):
    def carrier():
        return node.agent_run(guest.id, ["cat", "/sys/class/net/eth0/carrier"]).output.strip()

    [nic] = booted.nics
    assert carrier() == "1"
    node.update_nics(guest.id, (replace(nic, connected=False),))
    wait_until(lambda: carrier() == "0")
    node.update_nics(guest.id, (nic,))
    wait_until(lambda: carrier() == "1")


def test_the_counters_of_a_running_guest_grow(node, guest):
    before = machine_status(node, guest.id)
    assert before.memory_used > 0
    assert set(before.received) == set(before.sent) == {guest.nics[0].mac}
    after = wait_until(lambda: (now := machine_status(node, guest.id)).cpu_seconds > before.cpu_seconds and now)
    assert after.received[guest.nics[0].mac] >= before.received[guest.nics[0].mac]
    assert after.disk_read >= before.disk_read > 0
    assert after.disk_reads >= before.disk_reads > 0
    assert after.guest_memory is None or 0 < after.guest_memory < guest.memory_mb * MiB


def test_starting_a_running_machine_does_not_disturb_its_guest(node, guest):
    before = boot_id(node, guest.id)
    node.start(guest.id)
    assert boot_id(node, guest.id) == before


def test_a_suspended_guest_does_not_answer_and_then_goes_on(node, guest):
    before = boot_id(node, guest.id)
    node.suspend(guest.id)
    with pytest.raises(AgentUnavailable):
        node.agent_ping(guest.id)
    node.resume(guest.id)
    wait_until(lambda: agent_answers(node, guest.id))
    assert boot_id(node, guest.id) == before


def test_a_guest_restarts_itself_and_never_counts_as_off(node, guest):
    before = boot_id(node, guest.id)
    node.restart(guest.id)

    def restarted():
        assert assert_same_power(node, guest.id) == Power.on
        return agent_answers(node, guest.id) and boot_id(node, guest.id) != before

    wait_until(restarted)


def test_a_guest_turns_itself_off_when_asked(node, guest):
    node.shutdown(guest.id)
    wait_until(lambda: assert_same_power(node, guest.id) == Power.off)
    node.shutdown(guest.id)
    with pytest.raises(AgentUnavailable):
        node.agent_ping(guest.id)


def virtual_size(path):
    with path.open("rb") as file:
        return int.from_bytes(file.read(32)[24:], "big")


# --- guest agents


def test_many_agents_are_pinged_in_one_call(node, guest, new_machine):
    silent, off = new_machine(), new_machine()
    node.start(silent.id)
    ids = [guest.id, silent.id, off.id, str(uuid.uuid4())]
    wait_until(lambda: node.ping_agents(ids) == {guest.id: True, silent.id: False})
    assert node.ping_agents([]) == {}
    assert node.ping_agents(ids, seconds=-1) in ({}, {guest.id: True, silent.id: False})
    node.power_off(silent.id)
    node.power_off(guest.id)
    assert node.ping_agents(ids) == {}
    node.start(guest.id)
    wait_until(lambda: node.ping_agents(ids) == {guest.id: True})


def test_a_guest_tells_how_full_its_file_systems_are(node, guest):
    found = {each.mountpoint: each for each in node.agent_filesystems(guest.id)}
    assert found["/"].kind == "ext4"
    assert 0 < found["/"].used < found["/"].size <= disk_sizes(node)[guest.disks[0].name]
    node.power_off(guest.id)
    with pytest.raises(AgentUnavailable):
        node.agent_filesystems(guest.id)


def test_a_node_gives_a_tpm_or_refuses(node, new_machine):
    """One that says it has a TPM to give starts the machine with it; one that has none keeps the earlier definition."""
    machine = new_machine()
    node.define(machine)
    wanted = replace(machine, tpm=True)
    if not node.capabilities().tpm:
        with pytest.raises(Refused):
            node.define(wanted)
        node.start(machine.id)
    else:
        node.define(wanted)
        node.start(machine.id)
    assert machine_status(node, machine.id).power is Power.on
